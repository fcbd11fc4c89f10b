"""`split`: cuts a text at separators outside all brackets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from verifier.budget import TooHeavy, spend
from verifier.notation.latex import MAX_DEPTH

_OPEN = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_SPLIT_TOKEN = re.compile(
    r"\\(?:begin|end)\{[a-z]+\}|\\text\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|[A-Za-z]+|[=<>,;:|]|[()\[\]{}]|.",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text outside all brackets, and the separator that ends it."""

    text: str
    separator: str = field(default="")


@lru_cache(maxsize=64)
def _top_level(text: str) -> tuple[tuple[int, str], ...]:
    """Return start and text of each token outside all brackets, in order; one scan serves all separators."""
    found: list[tuple[int, str]] = []
    depth = 0
    for match in _SPLIT_TOKEN.finditer(text):
        token = match.group()
        if token in ("\\{", "\\langle") or token.startswith("\\begin{"):
            depth += 1
        elif token in ("\\}", "\\rangle") or token.startswith("\\end{"):
            depth -= 1
        elif token in _OPEN:
            depth = max(0, depth + _OPEN[token])
            if depth > MAX_DEPTH:
                raise TooHeavy("nested too deep")
        elif depth == 0:
            found.append(
                (match.start(), token if token.startswith("\\text") else token.split("{")[0].strip())
            )
    return tuple(found)


def split(text: str, separator_of: Callable[[str], str]) -> list[Piece]:
    """Cut at separators outside all brackets. A comma inside a grouped number does not cut."""
    pieces: list[Piece] = []
    start = 0
    tokens = _top_level(text)
    spend(len(tokens))
    grouping = _grouping_commas(text) if "," in text else frozenset()
    for at, token in tokens:
        separator = separator_of(token)
        if separator and at not in grouping:
            pieces.append(Piece(text[start:at].strip(), separator))
            start = at + len(token)
    pieces.append(Piece(text[start:].strip()))
    return pieces


_GROUPED = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])")


def _grouping_commas(text: str) -> frozenset[int]:
    """Return the positions of commas that only group the digits of one number."""
    return frozenset(
        at for match in _GROUPED.finditer(text) for at in range(match.start(), match.end()) if text[at] == ","
    )


_BRACKET = re.compile(r"\\.|[()\[\]{}]", re.DOTALL)


def closes_at_end(text: str) -> bool:
    """Return whether the last character closes the bracket that opens the text."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += _OPEN.get(match.group(), 0)
        if depth == 0:
            return match.end() == len(text)
    return False
