"""From a normalised answer string to a structured answer: expression, text, list, tuple, matrix, relation, union."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from verifier.budget import TooHeavy, spend
from verifier.latex import MAX_DEPTH, Node, Unreadable, parse
from verifier.normalise import skeleton, words
from verifier.tokens import flatten_brackets
from verifier.units import split_unit

MAX_MEMBERS = 300


@dataclass(frozen=True, slots=True)
class Text:
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
    """Decimal places if the whole answer is one decimal literal."""
    digits: int = 0
    """Significant digits of that literal."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Members in braces, or bare with commas: order is free. With `ordered` (ellipsis, ratio, time) it is not."""

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


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the string outside all brackets, and the separator that ended it."""

    text: str
    separator: str = field(default="")


_OPEN = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_NO_SOLUTION = re.compile(
    r"(?:there (?:is|are) )?(?:none|no (?:(?:real|such|integer|valid|possible|other) )*"
    r"(?:solutions?|answers?|values?|numbers?|roots?)(?: exists?)?|(?:the )?empty set|\\emptyset)"
)
_ALL_REALS = re.compile(
    r"(?:all|every|any) real (?:numbers?|values?)|the real numbers|reals|all reals|\\mathbb r"
)
_IS_TEXT = re.compile(r"^\s*\\text\s*\{([^{}]*)\}\s*$")
_TEXT_LEAD = re.compile(r"^\\text\s*\{[^{}]*?(?:\bis|\bare|\bof|=|:|\bequals|\bbe)\s*\}\s*(?=\S)")
_WORD_LEAD = re.compile(r"^(?:the\s+)?(?:final\s+)?answer\s+(?:is|:)\s*", re.IGNORECASE)
_MATRIX = re.compile(r"^\\begin\{pmatrix\}(.*)\\end\{pmatrix\}$", re.DOTALL)
_MODULUS = re.compile(
    r"\s*(?:\\pmod\s*\{?\s*(\d+)\s*\}?|\(?\s*\\(?:bmod|mod)\s*\{?\s*(\d+)\s*\}?\s*\)?|\(?\s*\\text\{\s*mod\s*\}\s*(\d+)\s*\)?)$"
)
_ORDINAL = re.compile(
    r"(?<=\d)\s*(?:\^\s*)?\{?\s*(?:\\text\s*\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th)(?![a-z]))\s*\}?$"
)
_CUT_DECIMAL = re.compile(r"^([+-]?\d*\.\d{3,})\s*\\ldots$")
_NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_DECIMAL = re.compile(r"[+-]?\s*(\d{1,3}(?:,\d{3})+|\d+)?\.(\d+)")
_BARE_WORD = re.compile(r"^[A-Za-z][A-Za-z' .-]*$")
_RELATIONS = {"=": "=", "<": "<", ">": ">", "\\le": "le", "\\ge": "ge", "\\ne": "ne", "\\in": "in"}
_PLUS_MINUS = re.compile(r"\\[pm][pm](?![A-Za-z])")
_SPLIT_TOKEN = re.compile(
    r"\\(?:begin|end)\{[a-z]+\}|\\text\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|[A-Za-z]+|[=<>,;:|]|[()\[\]{}]|.",
    re.DOTALL,
)


def read(text: str, *, grouped: bool = False) -> Answer:
    r"""Read a normalised answer.

    Args:
        text: output of `normalise`.
        grouped: commas followed by three digits group thousands even with a space after them.

    Raises:
        Unreadable: no rule and not the parser of expressions can read it.

    >>> type(read("(3,8)")).__name__, type(read("x<2")).__name__, type(read("3,8")).__name__
    ('Bracketed', 'Relation', 'Sequence')
    """
    spend(40 + len(text) // 2)
    text = _without_lead(flatten_brackets(text.strip()))
    if grouped:
        text = re.sub(r"(?<=\d), (?=\d{3}(?!\d))", ",", text)
    special = _special(text)
    if special is not None:
        return special
    if text.count(",") > MAX_MEMBERS:
        raise TooHeavy("too many members")
    alternatives = _split(text, _is_or)
    if len(alternatives) > 1 and not any(_is_plain(piece.text) for piece in alternatives):
        return Union(tuple(read(piece.text) for piece in alternatives))
    members = _split(text, _is_comma)
    if len(members) > 1:
        return _sequence(members, braced=False)
    return _read_one(text)


def _without_lead(text: str) -> str:
    text = _WORD_LEAD.sub("", text)
    text = _TEXT_LEAD.sub("", text)
    while len(text) > 1 and text[0] == "{" and _closes_at_end(text):
        text = text[1:-1].strip()
    return text


def _special(text: str) -> Answer | None:
    inside = _IS_TEXT.match(text)
    plain = words(text)
    if plain in _NUMBER_WORDS:
        return Expression(Node("num", value=Fraction(_NUMBER_WORDS.index(plain)), name="int"))
    if _NO_SOLUTION.fullmatch(plain) or skeleton(text) in (r"\{\}", r"\emptyset", r"\{\emptyset\}"):
        return Nothing()
    if _ALL_REALS.fullmatch(plain) or skeleton(text) in (
        r"\mathbb{R}",
        r"(-\infty,\infty)",
        r"(-\infty,+\infty)",
    ):
        return Everything()
    if inside is not None:
        content = inside.group(1).strip()
        if re.search(r"\d", content) and not re.search(r"[A-Za-z]{2,}", content):
            return read(content)
        letter = re.fullmatch(r"\(?([A-Za-z])\)?\.?", content)
        return Text(letter.group(1).casefold() if letter else plain)
    if _BARE_WORD.match(text) and _is_word(text):
        return Text(plain)
    return None


def _is_word(text: str) -> bool:
    """Letters that are a word, not a product of variables: four or more, or a repeated or capital-led run of three."""
    letters = re.sub(r"[^A-Za-z]", "", text)
    if re.search(
        r"\b(?:sin|cos|tan|ln|log|exp|sqrt|pi|inf|infinity|oo|theta|alpha|beta|gamma|lambda|phi|omega)\b",
        text,
    ):
        return False
    if len(letters) == 3:
        return len(set(letters)) < 3 or text[0].isupper() or letters.lower() == "yes"
    return len(letters) >= 4 or letters.lower() == "no"


def _is_plain(text: str) -> bool:
    """No relation or interval in it: a member of a list rather than a set of reals."""
    return not re.search(r"[<>=]|\\(?:le|ge|ne|in|cup)(?![A-Za-z])|[\[\]]|^\s*\(", text)


def _is_or(token: str) -> str:
    if token in ("\\cup", "\\lor") or re.fullmatch(
        r"\\text\s*\{\s*or\s*\}|or|\\text\s*\{\s*,?\s*or\s*\}", token
    ):
        return "or"
    return ""


def _is_comma(token: str) -> str:
    if token in (",", ";"):
        return ","
    if re.fullmatch(r"\\text\s*\{\s*,?\s*(?:and|or)\s*\}|and|or", token):
        return ","
    return ""


def _is_relation(token: str) -> str:
    return _RELATIONS.get(token, "")


def _is_minus(token: str) -> str:
    return "minus" if token == "\\setminus" else ""


def _is_land(token: str) -> str:
    return "and" if token in ("\\land", "\\cap") else ""


def _is_approx(token: str) -> str:
    return "~" if token in ("\\approx", "\\simeq", "\\sim") else ""


def _is_colon(token: str) -> str:
    return ":" if token == ":" else ""


@lru_cache(maxsize=64)
def _top_level(text: str) -> tuple[tuple[int, str], ...]:
    """Start and text of each token outside all brackets, in order; one scan serves all separators."""
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


def _split(text: str, separator_of: Callable[[str], str]) -> list[Piece]:
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
    """Places of the commas that only group the digits of one number."""
    return frozenset(
        at for match in _GROUPED.finditer(text) for at in range(match.start(), match.end()) if text[at] == ","
    )


_BRACKET = re.compile(r"\\.|[()\[\]{}]", re.DOTALL)


def _closes_at_end(text: str) -> bool:
    """Is the bracket that opens the text closed by its very last character?"""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += _OPEN.get(match.group(), 0)
        if depth == 0:
            return match.end() == len(text)
    return False


def _sequence(pieces: list[Piece], *, braced: bool) -> Answer:
    texts = [piece.text for piece in pieces if piece.text]
    if any(text == "\\ldots" for text in texts):
        return Sequence(tuple(_ellipsis(text) for text in texts), braced=braced, ordered=True)
    members: list[Answer] = []
    for text in texts:
        value = _read_one(text)
        members.extend(
            value.members
            if isinstance(value, Sequence) and not value.ordered and not value.braced
            else (value,)
        )
    if len(members) == 1 and not braced:
        return members[0]
    return Sequence(tuple(members), braced=braced)


def _ellipsis(text: str) -> Answer:
    return Text("\\ldots") if text == "\\ldots" else _read_one(text)


def _read_one(text: str) -> Answer:
    """An answer without top-level commas."""
    spend(40 + len(text) // 2)
    text = _without_lead(text)
    special = _special(text)
    if special is not None:
        return special
    for cut, op in ((_is_or, "or"), (_is_land, "and"), (_is_minus, "minus")):
        parts = _split(text, cut)
        if len(parts) > 1:
            return Union(tuple(read(part.text) for part in parts), op)
    about = _split(text, _is_approx)
    if len(about) > 1:
        text = about[-1].text if re.fullmatch(r"[A-Za-z]?", about[0].text) else about[0].text
    sides = _split(text, _is_relation)
    if len(sides) > 1:
        return Relation(
            tuple(read(side.text) for side in sides), tuple(side.separator for side in sides[:-1])
        )
    if _PLUS_MINUS.search(text):
        plus = _PLUS_MINUS.sub(lambda sign: "+" if sign.group() == "\\pm" else "-", text)
        minus = _PLUS_MINUS.sub(lambda sign: "-" if sign.group() == "\\pm" else "+", text)
        return Sequence((_read_one(plus), _read_one(minus)))
    matrix = _MATRIX.match(text)
    if matrix is not None and matrix.group(1).count("\\begin") == 0:
        return _matrix(matrix.group(1))
    return _enclosed(text) or _ratio(text) or _expression(text)


def _matrix(body: str) -> Matrix:
    rows = [row for row in re.split(r"\\\\(?:\s*\[[^\]]*\])?", body) if row.strip()]
    return Matrix(tuple(tuple(_read_one(cell.strip()) for cell in row.split("&")) for row in rows))


def _enclosed(text: str) -> Answer | None:
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = text[2:-2].strip()
        builder = re.match(
            r"^\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?[|:](?!\s*\d)\s*(.*)$", inner, re.DOTALL
        )
        if builder is not None and re.search(r"[<>=]|\\(?:le|ge|ne|in)(?![A-Za-z])", builder.group(2)):
            return read(builder.group(2))
        return _sequence(_split(inner, _is_comma), braced=True)
    if text.startswith("\\langle") and text.endswith("\\rangle"):
        inner = text[len("\\langle") : -len("\\rangle")]
        return Bracketed("(", tuple(_read_one(piece.text) for piece in _split(inner, _is_comma)), ")")
    if len(text) < 3 or text[0] not in "([" or text[-1] not in ")]":
        return None
    if not _closes_at_end(text):
        return None
    inner = text[1:-1]
    pieces = _split(inner, _is_comma)
    if len(pieces) < 2:
        return _read_one(inner) if text[0] == "(" and text[-1] == ")" and not _is_plain(inner) else None
    return Bracketed(text[0], tuple(_read_one(piece.text) for piece in pieces), text[-1])


def _ratio(text: str) -> Answer | None:
    parts = _split(text, _is_colon)
    if len(parts) < 2 or not all(part.text for part in parts):
        return None
    return Sequence(tuple(_expression(part.text) for part in parts), ordered=True)


def _expression(text: str) -> Expression | Text:
    modulus = None
    match = _MODULUS.search(text)
    if match is not None and match.start() > 0:
        modulus = Fraction(next(group for group in match.groups() if group))
        text = text[: match.start()].strip()
    text = _CUT_DECIMAL.sub(r"\1", _ORDINAL.sub("", text))
    text, unit = split_unit(text)
    percent = "\\pct" in text
    if percent:
        text = text.replace("\\pct", "").strip()
    literal = _DECIMAL.fullmatch(text)
    try:
        node = parse(text)
    except Unreadable:
        if re.fullmatch(
            r"[\w .'-]*[A-Za-z]{3}[\w .'-]*|(?:\s*\\text\s*\{[^{}]*\}\s*|[\w ,.'()-])+", text
        ) and not re.search(r"[\^_=]", text):
            return Text(words(text))
        raise
    places = len(literal.group(2)) if literal else None
    digits = len(((literal.group(1) or "") + literal.group(2)).replace(",", "").lstrip("0")) if literal else 0
    return Expression(node, unit, modulus, percent, places, digits)
