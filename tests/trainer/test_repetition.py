"""Repeated n-grams: counted in sampled text only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainer.selection.repetition import p_repetition


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 5))
def test_it_is_a_share_and_equals_counting_by_hand(ids: list[int], ngram: int) -> None:
    seen: set[tuple[int, ...]] = set()
    repeated = total = 0
    for start in range(len(ids) - ngram + 1):
        gram = tuple(ids[start : start + ngram])
        repeated += gram in seen
        total += 1
        seen.add(gram)
    assert abs(p_repetition(ids, [True] * len(ids), ngram) - (repeated / total if total else 0.0)) < 1e-12


def test_repeated_tool_text_is_no_repetition() -> None:
    ids = [1, 2, 3, 4, 1, 2, 3, 4]
    assert p_repetition(ids, [False] * 4 + [True] * 4, ngram=2) == 0.0


def test_a_loop_is_nearly_all_repetition() -> None:
    assert p_repetition([7] * 100, [True] * 100) > 0.98
