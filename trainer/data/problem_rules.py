r"""What a problem for RL must be (paper section 4.2): in a listed language, with one integer as its answer.

Each rule refuses with a reason, and the funnel counts reasons in the order of `ORDER`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from config.recipes import ProblemPart, ProblemSource
from trainer.data.sources import RowFault, record_of, require_part

MALFORMED = (
    "row_too_large",
    "not_utf8",
    "not_json",
    "not_an_object",
    "missing_column",
    "wrong_type",
    "no_problem",
)
"""The row itself is broken."""
ORDER = (
    "blank",
    *MALFORMED,
    "other_part",
    "too_long",
    "other_language",
    "no_answer",
    "unverifiable_answer",
    "composite_answer",
    "not_an_integer",
    "huge_answer",
)
"""Every reason of a row by itself, in the order of the rules."""

_HAN = re.compile("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff]")
_INTEGER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)")
_UNVERIFIABLE = re.compile(
    r"does\s?n[o']t\s+exist|not?\s+(solution|such|real|limit|answer)|\bnone\b|undefined|indeterminate|infinit|\\infty|"
    r"\bprove|proof|\btrue\b|\bfalse\b|\byes\b|\bno\b|diverge|impossible|\\(emptyset|varnothing)",
    re.IGNORECASE,
)
_COMPOSITE = re.compile(
    r"[,;=&]|\\pm|\\text\{\s*(and|or)\s*\}|\b(and|or)\b|\\(in|cup|le|ge|quad)\b|[()\[\]<>]|\\\{"
)


def language_of(text: str) -> str:
    """Language by script: `zh` for any Han character, `other` for a tenth of letters neither Latin nor Greek, or `en`.

    Languages in Latin letters count as one.

    >>> language_of("Find x."), language_of("Find \u6c42 x."), language_of("\u041d\u0430\u0439\u0434\u0438 x.")
    ('en', 'zh', 'other')
    """
    if text.isascii():
        return "en"
    if _HAN.search(text):
        return "zh"
    letters = [char for char in text if char.isalpha()]
    foreign = sum(
        not unicodedata.name(char, "").startswith(("LATIN", "GREEK", "MATHEMATICAL")) for char in letters
    )
    return "other" if foreign > 0.1 * len(letters) else "en"


def integer_of(answer: str, most: int) -> str:
    r"""The integer that an answer states, without separators or leading zeros.

    Raises RowFault: no_answer, unverifiable_answer, composite_answer, not_an_integer, huge_answer.

    >>> integer_of("$1{,}024$", 10**9), integer_of("-007", 10**9)
    ('1024', '-7')
    >>> integer_of("does not exist", 9)
    Traceback (most recent call last):
        ...
    trainer.data.sources.RowFault: unverifiable_answer: does not exist
    """
    plain = answer.strip().replace("{,}", ",").strip("$ \n\t")
    plain = plain.removeprefix(r"\(").removesuffix(r"\)").strip().removesuffix(".").strip()
    if not plain:
        raise RowFault("no_answer")
    if not _INTEGER.fullmatch(plain):
        if _UNVERIFIABLE.search(plain):
            raise RowFault("unverifiable_answer", answer[:80])
        if _COMPOSITE.search(plain):
            raise RowFault("composite_answer", answer[:80])
        raise RowFault("not_an_integer", answer[:80])
    digits = plain.replace(",", "").lstrip("+")
    if len(digits) > len(str(most)) + 1 + (len(digits) - len(digits.lstrip("-0"))):
        raise RowFault("huge_answer", f"{len(digits)} digits")
    value = int(digits)
    if abs(value) > most:
        raise RowFault("huge_answer", answer[:80])
    return str(value)


_SAME = re.compile(r"[\s$.,:;?'\"]")
_FRACTIONS = re.compile(r"\\[dt]frac")


def normalised(text: str) -> str:
    r"""What two copies of a problem share: case, white space, dollar signs, punctuation and \dfrac do not count.

    >>> normalised("What is $1 + 1$?") == normalised("what is 1+1")
    True
    """
    return _SAME.sub("", _FRACTIONS.sub(r"\\frac", text.lower()))


def hash64(text: str) -> int:
    """A signed 64-bit number of a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def text_of(record: Mapping[str, Any], columns: Sequence[str], reason: str) -> str:
    """The first of these columns that the record has, as text. A chat prompt is its last message.

    Raises RowFault: missing_column, wrong_type, or `reason` when it is empty.
    """
    name = next((column for column in columns if record.get(column) is not None), None)
    if name is None:
        raise RowFault(
            reason if any(column in record for column in columns) else "missing_column", columns[0]
        )
    value = record[name]
    if isinstance(value, bool | dict) or (isinstance(value, list) and not _is_chat(value)):
        raise RowFault("wrong_type", f"{name} is {type(value).__name__}")
    text = value[-1]["content"] if isinstance(value, list) else str(value)
    if not text.strip():
        raise RowFault(reason, name)
    return text


def _is_chat(value: list[Any]) -> bool:
    last = value[-1] if value else None
    return isinstance(last, dict) and isinstance(last.get("content"), str)


def read_problem(
    row: Mapping[str, Any], number: int, source: ProblemSource, part: ProblemPart
) -> dict[str, Any]:
    """A row as the columns of `trainer.data.curation.COLUMNS`; `reason` is empty where every rule holds."""
    found: dict[str, Any] = {
        "id": f"{source.name}-{number}", "problem": "", "answer": "", "difficulty": "", "reason": "", "detail": "",
        "language": "", "number": number,
    }  # fmt: skip
    try:
        record = record_of(row)
        require_part(record, source.where)
        found["problem"] = text_of(record, source.problem, "no_problem").strip()
        given = next((record[name] for name in source.id if record.get(name) is not None), None)
        if isinstance(given, str | int) and str(given).strip():
            found["id"] = str(given)
        difficulty = record.get("difficulty", record.get("level", record.get("pass_rate_72b_tir")))
        found["difficulty"] = "" if difficulty is None else str(difficulty)
        _check(found, record, source, part)
    except RowFault as fault:
        found["reason"], found["detail"] = fault.reason, fault.detail[:200]
    return found


def _check(
    found: dict[str, Any], record: Mapping[str, Any], source: ProblemSource, part: ProblemPart
) -> None:
    text = found["problem"]
    if len(text) > part.max_chars:
        found["problem"] = ""
        raise RowFault("too_long", f"{len(text):,} characters")
    answer = text_of(record, source.answer, "no_answer")
    found["answer"] = answer.strip()[:200]
    found["language"] = language_of(text)
    if found["language"] not in part.languages:
        raise RowFault("other_language", found["language"])
    found["answer"] = integer_of(answer, part.max_abs_answer)
