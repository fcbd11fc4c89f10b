r"""`compare`: compares two structured answers exactly, under the policies of `verifier.graders.policy`.

It decides every pair that requires no symbolic engine, and reports when one is required.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from verifier.answers.arithmetic import Undefined
from verifier.answers.equality import same
from verifier.answers.reading import read
from verifier.answers.structured import Answer, Expression, Text
from verifier.budget import TooHeavy, budget
from verifier.graders.policy import MAX_ANSWER_CHARS
from verifier.notation.latex import Node, Unreadable
from verifier.notation.normalise import normalise, skeleton, words
from verifier.notation.numerals import whole


class Outcome(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    UNREADABLE = "unreadable"
    """The symbolic engine may be able to read it."""
    TOO_HEAVY = "too_heavy"


@dataclass(frozen=True, slots=True)
class Comparison:
    outcome: Outcome
    rule: str


_INTEGER = re.compile(r"([+-]?)\s*(\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?")
_GROUPED_GOLD = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+")


def compare(gold: str, answer: str) -> Comparison:
    r"""Compare two answers as written in the text.

    >>> compare(r"\frac{5}{8}", "0.625").outcome.value, compare("(3,8)", "[3,8]").outcome.value
    ('equal', 'different')
    >>> compare("87", "87.0000001").outcome.value, compare("1/7", "0.1428571").outcome.value
    ('different', 'equal')
    """
    if gold.strip() == answer.strip():
        return Comparison(Outcome.EQUAL, "same text")
    if max(len(gold), len(answer)) > MAX_ANSWER_CHARS:
        return Comparison(Outcome.UNREADABLE, "too long to compare")
    return _within_budget(_compare, gold, answer)


def _within_budget(decide: Callable[[str, str], Comparison], gold: str, answer: str) -> Comparison:
    try:
        with budget():
            return decide(gold, answer)
    except Unreadable as error:
        return Comparison(Outcome.UNREADABLE, str(error))
    except Undefined as error:
        return Comparison(Outcome.DIFFERENT, f"no value: {error}")
    except (TooHeavy, OverflowError, RecursionError) as error:
        return Comparison(Outcome.TOO_HEAVY, str(error) or "too heavy")


def _compare(gold: str, answer: str) -> Comparison:
    gold_text, answer_text = normalise(gold), normalise(answer)
    if gold_text and skeleton(gold_text) == skeleton(answer_text):
        return Comparison(Outcome.EQUAL, "same notation")
    grouped = _GROUPED_GOLD.fullmatch(gold_text) is not None
    left = read(gold_text)
    right = read(answer_text, grouped=grouped)
    if isinstance(left, Text) and isinstance(right, Text) and words(gold_text) == words(answer_text) != "":
        return Comparison(Outcome.EQUAL, "same words")
    return Comparison(Outcome.EQUAL if same(left, right) else Outcome.DIFFERENT, _kind(left))


def compare_integers(gold: str, answer: str) -> Comparison:
    r"""Apply the AIME rule: both are integer literals and equal. Leading zeros, separators and degrees do not count.

    >>> compare_integers("25", "025").outcome.value, compare_integers("336", r"336^\circ").outcome.value
    ('equal', 'equal')
    >>> compare_integers("5", "500").outcome.value, compare_integers("5", "10/2").outcome.value
    ('different', 'different')
    """
    return _within_budget(_compare_integers, gold, answer)


def _compare_integers(gold: str, answer: str) -> Comparison:
    expected = integer_literal(gold)
    if expected is None:
        return Comparison(Outcome.UNREADABLE, "gold is no integer")
    found = integer_literal(answer)
    if found is None:
        return Comparison(Outcome.DIFFERENT, "no integer literal")
    return Comparison(Outcome.EQUAL if expected == found else Outcome.DIFFERENT, "integer")


def integer_literal(text: str) -> int | None:
    """Return the integer that a text spells; None if it spells anything else.

    A name or a chain of true equalities may precede it: `x = 73`, `m + n = 25 + 48 = 73`.

    >>> integer_literal("m+n = 25+48 = 73"), integer_literal("m=25, n=73"), integer_literal("x = 8 = 7")
    (73, None, None)
    """
    if len(text) > MAX_ANSWER_CHARS:
        return None
    plain = normalise(text)
    before, equals, last = plain.rpartition("=")
    value = _spelled_integer(last)
    if value is None or not before.strip():
        return value
    try:
        return value if equals and same(read(plain), _integer(value)) else None
    except (Unreadable, Undefined):
        return None


def _integer(value: int) -> Answer:
    return Expression(Node("num", value=Fraction(value), name="int"))


def _spelled_integer(plain: str) -> int | None:
    plain = re.sub(r"\\(?:deg|usd|eur|gbp|jpy)(?![A-Za-z])", "", plain).strip()
    plain = re.sub(r"^\\text\s*\{\s*([^{}]*?)\s*\}$", r"\1", plain).strip("{} ")
    match = _INTEGER.fullmatch(plain)
    if match is None:
        return None
    value = whole(match.group(2).replace(",", ""))
    return -value if match.group(1) == "-" else value


def _kind(answer: Answer) -> str:
    if isinstance(answer, Expression):
        return "number" if not answer.node.variables() else "expression"
    return type(answer).__name__.lower()


def parses(text: str) -> bool:
    """Return whether the answer can be read; used to refuse golds."""
    try:
        read(normalise(text))
    except (Unreadable, TooHeavy, Undefined):
        return False
    return True
