r"""`letter_of`: finds the option that a multiple-choice answer names. A list or a hedge names none.

It reads short texts: behind 'Answer:', in a box, or in a sentence such as 'option C is correct'. It first removes
formatting: Markdown, LaTeX, quotes, brackets and full-width forms. The text after the letter matters: `C3H8` is a
molecule, `A ketone` an article, `A or B` no answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CANDIDATE = 300
"""Characters read behind a marker."""
MAX_MARKERS = 50
"""Markers read, from the last one back; bounds the time of any text."""
STATEMENT_CHARS = 4000
"""Characters at the end of a response in which sentences are read."""

_ANSWER = re.compile(
    r"(?i)(?<![a-z])answer(?:\s*\([a-z ]{1,20}\))?(?:\s+(?:is|choice|option|letter)){0,2}[\s*_`]{0,4}"
    r"[:\uff1a\ufe55\u2236]"
)
_DECORATION = re.compile(
    r"""<\|[a-z_]{1,40}\|>|</?[a-z]{1,10}>|\\[()\[\],;!]
    |\\(?:text)?color\s*\{[a-z]{1,20}\}|\\(?:boxed|fbox|text|textbf|textit|textrm|emph|mathrm|mathbf|mathsf|mathit|mathbb|boldsymbol|bm|underline|operatorname|bf|rm|left|right|bigl?|bigr)
    (?![A-Za-z])|[*`$~"\u201c\u201d\u2018\u2019\u00ab\u00bb\u300c\u300d\u3010\u3011]|(?<![A-Za-z0-9])'|'(?![A-Za-z0-9])
    |__|(?<![A-Za-z0-9}])_|_(?![A-Za-z0-9{])""",
    re.VERBOSE,
)
_STOPS = str.maketrans({"\u3002": ".", "\u3001": ",", "\u060c": ",", "\u2013": "-", "\u2014": "-"})
_INVISIBLE = ("So", "Cf")
"""Check marks and other pictures, and signs without width."""
_LEAD = re.compile(
    r"(?i)(?:(?:so|thus|hence|therefore|the|my|final|correct|right|best|answer|option|choice|letter|it|is"
    r"|must be|would be|should be)\b[\s:,=]*)*"
)
_OPEN = re.compile(r"[(\[{<\s]*")
_LETTER = re.compile(r"[A-Da-d](?![A-Za-z0-9_^'+\-=/\\])")
_JOINED = re.compile(r"[A-D]\s*[/|&+]\s*\(?[A-D]\b")
_CLOSE = re.compile(r"\s*[)\]}>]*")
_ELEMENTS = re.compile(r"\s*[,:;]\s*[A-Z]\b\s*(?:[,:;]|and\b|or\b|$)")
"""'C, H and O' is no option."""
_SEPARATOR = re.compile(r"[)\]}>]*(?:[.,:;!](?!\d)|\s-+\s|(?<=[)\]}>]))\s*")
_REASON = re.compile(
    r"(?i)\s*,?\s*(?:because|since|as|for|due|which|given|by|with|rather than|instead of|not|is|was|would|will)\b"
)
_VERDICT = re.compile(r"(?i)\s*,?\s*(?:is|was|would|will)\b")
_IN_FAVOUR = re.compile(
    r"(?i)\s*,?\s*(?:is|was|would be|will be)\s+(?:(?:clearly|indeed|therefore|thus|also|definitely|still)\s+)?"
    r"(?:the\s+)?(?:(?:only|most|one|single)\s+)*(?:correct|right|best|true|answer|option|choice|valid)\b"
)
_ALTERNATIVE = re.compile(
    r"(?i)[\s.,:;)\]}]*(?:\(?(?:or|and|and/or|vs|versus|nor|to|then|maybe|perhaps|possibly|but|also)\b|[/&|+?]|-\s*[a-d]\b"
    r"|[(\[{]*[a-d]\b(?=\s*(?:[).,:;/\]}&|]|or\b|and\b|[a-d]\b|$)))"
)
_OTHER = re.compile(r"(?<![A-Za-z0-9_\\])(?:A(?!\s+[a-z])|[B-D])(?![A-Za-z0-9_^'+\-=])")
_EXCLUDED = re.compile(r"(?i)(?:not|than|of|over|unlike|excluding|eliminating|against)\s+(?:option\s+)?[(]?$")
_IS_RIGHT = re.compile(
    r"(?i)(?:\b(option|choice|answer)\s+)?([(\[]?)\b([A-D])\b[)\]]?\s+is\s+(?:(?:therefore|thus|clearly|indeed|also)\s+)?"
    r"(?:the\s+)?(?:only\s+|most\s+)?(?:correct|right|best)\b(?!\s+(?:about|that|only|if|when))"
)
_ANSWER_IS = re.compile(r"(?i)\b(?:answer|option|choice)\s+(?:is|must be|should be|would be)\s+")
_UNSURE = re.compile(
    r"(?i)(?:\b(?:or|and|nor|neither|not|if|whether|suppose|assume|assuming|unless|that)|(?<![A-Za-z])[A-D][)\]]?\s*[,/&])\s*(?:the\s+)?(?:option\s+|choice\s+)?[(\[]?$"
)
_CONDITION = re.compile(r"(?i)\b(?:if|unless|suppose|assume|assuming|whether|were)\b")


@dataclass(frozen=True, slots=True)
class Named:
    """The option that a text names."""

    letter: str | None = None
    is_open: bool = False
    """It names options, but not exactly one: a list, a hedge."""


NOTHING = Named()
OPEN = Named(is_open=True)


def letter_of(text: str) -> Named:
    r"""Return the option that a short text names.

    >>> [letter_of(text).letter for text in ("**C**", r"\(\text{Option D}\)", "(b) an acid", "C because of A", "C3H8")]
    ['C', 'D', 'B', 'C', None]
    >>> [letter_of(text).is_open for text in ("A, B, C or D", "A/B", "either A or B", "a ketone")]
    [True, True, True, False]
    """
    plain = _plain(text)
    start = _LEAD.match(plain)
    at = _OPEN.match(plain, start.end() if start else 0)
    letter = _LETTER.match(plain, at.end() if at else 0)
    if letter is None or _JOINED.match(plain, letter.start()):
        return _open_or_nothing(plain)
    name, rest = letter.group(), plain[letter.end() :]
    return Named(name.upper()) if _ends_well(name, rest) else _open_or_nothing(plain)


def _plain(text: str) -> str:
    """Remove formatting and line breaks; replace full-width and other compatibility forms by plain ones."""
    cut = unicodedata.normalize("NFKC", text[:MAX_CANDIDATE]).translate(_STOPS)
    cut = "".join(char for char in cut if unicodedata.category(char) not in _INVISIBLE)
    return " ".join(_DECORATION.sub("", cut).replace("{", " ").replace("}", " ").split())


def _ends_well(name: str, rest: str) -> bool:
    """Return whether the text after a letter leaves it the named option."""
    closed = _CLOSE.match(rest)
    bare = rest[closed.end() :].strip(" .!,;:") if closed else rest
    if not bare:
        return "?" not in rest
    separator = _SEPARATOR.match(rest)
    after = rest[separator.end() :] if separator else rest
    if _ELEMENTS.match(rest) or _ALTERNATIVE.match(rest) or _ALTERNATIVE.match(after):
        return False
    if separator and not rest.lstrip(")]}>").startswith((",", ";")):
        return True  # 'C) the text of the option'
    reason = _REASON.match(rest)
    if reason is None and not separator and not rest.lstrip().startswith("("):
        return False  # 'A ketone'
    if name.islower() and not re.match(r"(?i)\s*is\s+(?:the\s+)?(?:correct|right|best)\b", rest):
        return False
    if _VERDICT.match(rest) and not _IN_FAVOUR.match(rest):
        return False  # 'C is eliminated'
    clause = re.split(r"(?i)\bbecause\b|\bsince\b|\bas\b|\bgiven\b|[.!]\s", rest, maxsplit=1)[0]
    return all(_EXCLUDED.search(clause[: other.start()]) for other in _OTHER.finditer(clause))


def _open_or_nothing(plain: str) -> Named:
    return (
        OPEN
        if _OTHER.search(plain) or re.search(r"(?i)\b[a-d]\s*(?:,|or|and|/)\s*[a-d]\b", plain)
        else NOTHING
    )


def answer_line(text: str) -> tuple[Named, int]:
    r"""Return the option that the last 'Answer:' with any option names, and its position; -1 without such words.

    >>> answer_line("Answer: B\n\nTo answer: it boils.")
    (Named(letter='B', is_open=False), 0)
    """
    last: deque[re.Match[str]] = deque(_ANSWER.finditer(text), MAX_MARKERS)
    for marker in reversed(last):
        found = letter_of(_behind(text, marker.end()))
        if found is not NOTHING:
            return found, marker.start()
    return NOTHING, last[-1].start() if last else -1


def _behind(text: str, start: int) -> str:
    """Return the first line with content behind a marker."""
    for line in text[start : start + 2 * MAX_CANDIDATE].split("\n")[:6]:
        if _plain(line):
            return line
    return ""


def statement(text: str) -> Named:
    """Return the option of the closing sentences: 'the answer is C', 'option C is correct'; OPEN where they disagree.

    >>> statement("So option c is correct."), statement("If A is correct, then B is not.")
    (Named(letter='C', is_open=False), Named(letter=None, is_open=False))
    """
    tail = unicodedata.normalize("NFKC", text[-STATEMENT_CHARS:])
    plain = _DECORATION.sub("", tail)
    found = {named for named in _statements(plain) if named is not NOTHING}
    return found.pop() if len(found) == 1 else OPEN if found else NOTHING


def _statements(plain: str) -> Iterator[Named]:
    for match in deque(_ANSWER_IS.finditer(plain), MAX_MARKERS):
        yield letter_of(re.split(r"\n|\.\s", plain[match.end() :], maxsplit=1)[0])
    for match in deque(_IS_RIGHT.finditer(plain), MAX_MARKERS):
        word, bracket, letter = match.groups()
        if letter.islower() and not (word or bracket):
            continue
        sentence_end = re.search(r"[.!?\n]", plain[match.end() :])
        if sentence_end and sentence_end.group() == "?":
            continue
        lead = re.split(r"[.!?\n]", plain[max(0, match.start() - 200) : match.start()])[-1]
        if _CONDITION.search(lead) and lead.rstrip().endswith(","):
            continue
        before = _UNSURE.search(lead[-40:])
        if before is None:
            yield Named(letter.upper())
        elif re.match(r"(?i)(?:or|and|nor)\b|[A-D][)\]]?\s*[,/&]", before.group()):
            yield OPEN
