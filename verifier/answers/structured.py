"""`Answer`: the forms of an answer: expression, text, list, tuple, matrix, relation, union."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from verifier.notation.latex import Node


@dataclass(frozen=True, slots=True)
class Text:
    """Words. Letters and digits count; with a digit or a mathematical sign among them, every sign counts."""

    words: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """The empty set, 'no solution', 'none'."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All real numbers."""


@dataclass(frozen=True, slots=True)
class Expression:
    node: Node
    unit: str = ""
    modulus: Fraction | None = None
    percent: bool = False
    places: int | None = None
    """Decimal places, if the whole answer is one decimal literal."""
    digits: int = 0
    """Significant digits of that literal."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Members in braces, or bare with commas, in any order; with `ordered` (ellipsis, ratio, time) the order counts."""

    members: tuple[Answer, ...]
    braced: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A tuple, or an interval when there are two members."""

    left: str
    members: tuple[Answer, ...]
    right: str


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[tuple[Answer, ...], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """sides[0] ops[0] sides[1] ops[1] ...; ops are =, <, >, le, ge, ne, in."""

    sides: tuple[Answer, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    parts: tuple[Answer, ...]
    op: str = "or"
    """or, and, minus"""


Answer = Text | Nothing | Everything | Expression | Sequence | Bracketed | Matrix | Relation | Union
