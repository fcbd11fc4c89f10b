r"""`extract_loosely` and `loosely_equal`: the paper's lenient grader, rebuilt from its description.

It combines heuristic extraction and loose numbers with math-verify, and serves to measure how much of a score comes
from the grader. Unlike the release, it never runs `eval` on an answer. It keeps known false positives of the
original: factors of 100, pi = 3.14, open equals closed intervals, dropped base subscripts, lists that collapse into
a number.
"""

from __future__ import annotations

import re
from fractions import Fraction

from verifier.answers.arithmetic import Number, Undefined, as_real, is_real, value_of
from verifier.answers.extract import balanced
from verifier.budget import TooHeavy
from verifier.graders.policy import MAX_ANSWER_CHARS
from verifier.notation.latex import Unreadable, parse
from verifier.notation.normalise import normalise, skeleton

REL_TOL = 1e-4
_WORDS_AT_END = re.compile(r" ?\\text ?\{[^{}]*\}$")
MAX_LOOSE_CHARS = 2000
_BEFORE = ("answer:", "answer is", "answers are")
_AFTER = ("is answer", "is the answer", "are answers", "are the answers")
_LEADS = ("be ", "is ", "are ", "=", ": ", "get ", "be\n", "is\n", "are\n", ":\n", "get\n")


def extract_loosely(text: str) -> str:
    r"""Find the answer as the release does: after a marker, in the last box, or behind a verb.

    >>> extract_loosely(r"So \boxed{5} and then \boxed{7}."), extract_loosely("The answer is 12. Done")
    ('7', '12')
    """
    lower = text.lower()
    for marker in _BEFORE:
        at = lower.rfind(marker)
        if at >= 0:
            text = text[at + len(marker) :].strip()
            lower = text.lower()
    for marker in _AFTER:
        at = lower.rfind(marker)
        if at >= 0:
            text = text[:at].strip()
            lower = text.lower()
    boxed = _last_box(text)
    if boxed is not None:
        return boxed
    if ". " in text:
        text = text[: text.rfind(". ")].strip()
    for marker in _LEADS:
        at = text.lower().rfind(marker)
        if at >= 0:
            text = text[at + len(marker) :].strip()
    return text.rstrip(".").strip()


def _last_box(text: str) -> str | None:
    at = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if at < 0:
        return None
    brace = text.find("{", at)
    if brace < 0:
        token = text[at:].split(None, 2)
        return token[1].rstrip("$.") if len(token) > 1 else ""
    content = balanced(text, brace)
    return content.strip() if content is not None else text[brace + 1 :].strip()


def loosely_equal(gold: str, answer: str) -> bool:
    r"""Compare as the first grader of the release does.

    >>> loosely_equal("8", "800"), loosely_equal(r"3\pi", "9.42"), loosely_equal("8", "9")
    (True, True, False)
    """
    if gold.strip() == answer.strip():
        return True
    if len(answer) > MAX_LOOSE_CHARS or len(gold) > MAX_ANSWER_CHARS or not answer.isascii():
        return False
    left, right = _loose(gold), _loose(answer)
    if left and skeleton(left) == skeleton(right):
        return True
    for pi in (None, "3.14"):
        numbers = _number(left, pi), _number(right, None)
        if numbers[0] is not None and numbers[1] is not None:
            if _close(numbers[0], numbers[1]):
                return True
        elif pi is None and "\\pi" not in left:
            return False
    return False


def _loose(text: str) -> str:
    text = normalise(text)
    text = _WORDS_AT_END.sub("", text)
    text = re.sub(r"_\{?\d+\}?$", "", text)
    if re.fullmatch(r"[\d, ]+", text):
        text = re.sub(r"[, ]", "", text)
    if len(text) > 2 and text[0] in "([" and text[-1] in ")]":
        text = text[0] + text[1:-1] + ")"
    return re.sub(r"\\(?:deg|pct|usd|eur|gbp|jpy)(?![A-Za-z])", "", text).strip()


def _number(text: str, pi: str | None) -> Number | None:
    if pi is not None:
        text = re.sub(r"\\pi(?![A-Za-z])", f"({pi})", text)
    try:
        node = parse(text)
        value = None if node.variables() else value_of(node, {})
    except (Unreadable, TooHeavy, Undefined, OverflowError, RecursionError):
        return None
    return value if value is not None and is_real(value) else None


def _close(gold: Number, answer: Number) -> bool:
    expected, found = as_real(gold), as_real(answer)
    scales = (Fraction(1, 100), Fraction(1), Fraction(100))
    return any(
        abs(expected * as_real(scale) - found) <= REL_TOL * max(abs(expected * as_real(scale)), abs(found))
        for scale in scales
    )
