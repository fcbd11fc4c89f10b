"""`label_tokens`: words that mark a fork in the reasoning or a look back at a tool response, independent of entropy.

The list follows the examples of the paper (section 5.4, figures 10 and 11) and of the 80/20 paper
(arXiv 2506.01939); it was fixed before any run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

FORKING = (
    "wait",
    "but",
    "but before",
    "however",
    "alternatively",
    "maybe",
    "perhaps",
    "instead",
    "actually",
    "hmm",
    "let me check",
    "let me verify",
    "double-check",
    "check",
    "verify",
    "rerun",
    "re-evaluate",
    "reconsider",
    "try",
    "another",
    "suppose",
    "assume",
)
REFLECTION = (
    "the output",
    "the result",
    "the tool",
    "the code",
    "the error",
    "error",
    "failed",
    "traceback",
    "returned",
    "printed",
    "this confirms",
    "confirms",
    "matches",
    "as expected",
    "unexpected",
    "fix",
    "corrected",
)


def pattern(words: Sequence[str]) -> re.Pattern[str]:
    """Match whole words or phrases, longest first, with any case and any white space between words.

    >>> [m.group() for m in pattern(("but", "but before")).finditer("But  before: butter")]
    ['But  before']
    """
    parts = [r"\s+".join(map(re.escape, w.split())) for w in sorted(words, key=lambda w: (-len(w), w))]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)


_FORKING = pattern(FORKING)
_REFLECTION = pattern(REFLECTION)


def label_tokens(texts: Sequence[str], *, reflection: bool = False) -> list[bool]:
    """Return which tokens touch a listed word, when the pieces of one turn are read as one text.

    A word cut into several pieces labels them all. The blank before a word belongs to the piece but not to the word,
    so a piece that holds only the blank stays unlabelled.

    Args:
        texts: Text of each token, in order.
        reflection: Use the reflection list instead of the forking list.

    >>> label_tokens([" so", " wa", "it", ",", " then"])
    [False, True, True, False, False]
    """
    owner = [i for i, piece in enumerate(texts) for _ in piece]
    labels = [False] * len(texts)
    for match in (_REFLECTION if reflection else _FORKING).finditer("".join(texts)):
        for i in set(owner[match.start() : match.end()]):
            labels[i] = True
    return labels
