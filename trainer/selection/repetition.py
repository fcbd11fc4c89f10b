"""`p_repetition`: repeated n-grams in the sampled text, a penalty that the paper tried and dropped (section 4.3.1)."""

from __future__ import annotations

from collections.abc import Sequence

NGRAM = 16
"""Tokens; longer than the fixed words of a call, which would otherwise count as repetition."""


def p_repetition(ids: Sequence[int], mask: Sequence[bool], ngram: int = NGRAM) -> float:
    """Share of sampled n-grams that occurred before in the same response; 0 below one n-gram.

    The paper names the idea (from Phi-4-reasoning) without a formula. An n-gram neither contains nor spans tool text.

    Args:
        ids: all tokens of a trajectory.
        mask: true where the policy sampled.
        ngram: tokens of one n-gram.

    Returns:
        A number in [0, 1).

    Of the bigrams ab, ba, ab, the third is a repetition.

    >>> round(p_repetition([1, 2, 1, 2], [True] * 4, ngram=2), 4)
    0.3333
    >>> p_repetition([1, 2, 9, 1, 2], [True, True, False, True, True], ngram=2), p_repetition([1], [True])
    (0.5, 0.0)
    """
    grams = [
        tuple(ids[start : start + ngram])
        for start in range(len(ids) - ngram + 1)
        if all(mask[start : start + ngram])
    ]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
