"""`read`: turns a normalised answer string into a structured answer."""

from __future__ import annotations

import re
from fractions import Fraction

from verifier.answers.structured import (
    Answer,
    Bracketed,
    Everything,
    Expression,
    Matrix,
    Nothing,
    Relation,
    Sequence,
    Text,
    Union,
)
from verifier.budget import TooHeavy, spend
from verifier.notation.latex import Node, Unreadable, parse
from verifier.notation.normalise import skeleton, words
from verifier.notation.numerals import number_of_words
from verifier.notation.pieces import Piece, closes_at_end, split
from verifier.notation.tokens import flatten_brackets
from verifier.notation.units import split_unit

MAX_MEMBERS = 300


_NO_SOLUTION = re.compile(
    r"(?:there (?:is|are) )?(?:none|no (?:(?:real|such|integer|valid|possible|other) )*"
    r"(?:solutions?|answers?|values?|numbers?|roots?)(?: exists?)?|(?:the )?empty set|\\emptyset)"
)
_ALL_REALS = re.compile(
    r"(?:all|every|any) real (?:numbers?|values?)|the real numbers|reals|all reals|\\mathbb r"
)
_IS_TEXT = re.compile(r"^\s*\\text\s*\{([^{}]*)\}\s*$")
_TEXT_LEAD = re.compile(r"^\\text ?\{([^{}]*?)(?:\bis|\bare|\bof|=|:|\bequals|\bbe) ?\} ?(?=\S)")
_LEADS = """= the a an final answer answers result so thus hence therefore we get have our value values total number is
solution solutions required desired minimum maximum smallest largest least greatest area volume length width height
perimeter radius diameter distance probability and there then that it this"""
_LEAD_WORDS = frozenset(_LEADS.split())
"""Words before a number that are dropped; 'half of', 'at most' and 'not' change the number and stay."""
_WORD_LEAD = re.compile(r"^(?:the +)?(?:final +)?answer +(?:is|:) *", re.IGNORECASE)
_EQUALS_LEAD = re.compile(r"^(?:(?:=|\\(?:implies|Rightarrow)(?![A-Za-z])) ?)+")
_MATRIX = re.compile(r"^\\begin\{pmatrix\}(.*)\\end\{pmatrix\}$", re.DOTALL)
_MODULUS = re.compile(
    r"\s*(?:\\pmod\s*\{?\s*(\d+)\s*\}?|\(?\s*\\(?:bmod|mod)\s*\{?\s*(\d+)\s*\}?\s*\)?|\(?\s*\\text\{\s*mod\s*\}\s*(\d+)\s*\)?)$"
)
_ORDINAL = re.compile(
    r"(?<=\d)\s*(?:\^\s*)?\{?\s*(?:\\text\s*\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th)(?![a-z]))\s*\}?$"
)
_DETERMINANT = re.compile(r"^\\begin\{vmatrix\}((?:(?!\\begin|\\end).)*)\\end\{vmatrix\}$", re.DOTALL)
_SCALED_MATRIX = re.compile(
    r"^([^&]{1,200}?)\*? ?(\\begin\{pmatrix\}(?:(?!\\begin|\\end).)*\\end\{pmatrix\})$", re.DOTALL
)
_MAX_DETERMINANT = 4
_CALL = re.compile(
    r"^(?:\\?(?:Pr|Var|Cov|det|phi|varphi|tau|sigma)|\\mathbb\{[PE]\}|[A-WZ]|[f-hpqrsuv])"
    r"(?:_ ?(?:\w|\{\w+\}))?(?:'+|\^ ?\{ ?(?:-1|\(\d\)) ?\})? ?[(\[]"
)
"""The value of a function or a probability on the left of an equation: `f(3)`, `P(X=1)`."""
_WORDS_WITH_DIGITS = re.compile(r"^[A-Za-z]{3,}[ .,]+\d[\w .,:]*$")
_PROSE_TOKEN = re.compile(r"[A-Za-z]+|\d+(?:\.\d+)?(?![.\d])|[ ,.;'()]|-(?=[A-Za-z])|:(?=\d)")
_CUT_DECIMAL = re.compile(r"^([+-]?\d*\.\d{3,})\s*\\ldots$")
_DECIMAL = re.compile(r"[+-]?\s*(\d{1,3}(?:,\d{3})+|\d+)?\.(\d+)")
_BARE_WORD = re.compile(r"^[A-Za-z][A-Za-z' .-]*$")
_RELATIONS = {
    "=": "=",
    "<": "<",
    ">": ">",
    "\\le": "le",
    "\\ge": "ge",
    "\\ne": "ne",
    "\\in": "in",
    "\\equiv": "=",
}
_PAIR_OF_INTEGERS = re.compile(r"([+-]?\d{1,3}),(\d{3})")
"""In brackets: a single grouped number does not occur there."""
_MORE = re.compile(r":|\d ?\\text")
"""A ratio or a unit: more than an expression."""
_PLUS_MINUS = re.compile(r"\\[pm][pm](?![A-Za-z])")


def read(text: str, *, grouped: bool = False) -> Answer:
    r"""Read a normalised answer.

    Args:
        text: output of `normalise`.
        grouped: commas followed by three digits group thousands even with a space after them.

    Raises:
        Unreadable: neither a rule nor the parser of expressions can read it.

    >>> type(read("(3,8)")).__name__, type(read("x<2")).__name__, type(read("3,8")).__name__
    ('Bracketed', 'Relation', 'Sequence')
    """
    spend(40 + len(text) // 2)
    text = _without_lead(flatten_brackets(text.strip()))
    if grouped:
        text = re.sub(r"(?<=\d), (?=\d{3}(?!\d))", ",", text)
        text = re.sub(r"^\(([\d,]+)\)$", r"\1", text)
    special = _special(text)
    if special is not None:
        return special
    if text.count(",") > MAX_MEMBERS:
        raise TooHeavy("too many members")
    alternatives = split(text, _is_or)
    if len(alternatives) > 1 and not any(_is_plain(piece.text) for piece in alternatives):
        return Union(tuple(read(piece.text) for piece in alternatives))
    members = split(text, _is_comma)
    if len(members) > 1:
        return _sequence(members, braced=False)
    return _read_one(text)


def _without_lead(text: str) -> str:
    text = _EQUALS_LEAD.sub("", _WORD_LEAD.sub("", text))
    lead = _TEXT_LEAD.match(text)
    if lead is not None and text[lead.end() :].strip(" ,;."):
        strange = [
            word for word in re.findall(r"\S+", lead[1].lower()) if word.strip(",.;:") not in _LEAD_WORDS
        ]
        if not strange or all(re.fullmatch(r"[a-z]", word) for word in strange):
            text = text[lead.end() :]
    while len(text) > 1 and text[0] == "{" and closes_at_end(text):
        text = text[1:-1].strip().removesuffix(".")
    return text


def _special(text: str) -> Answer | None:
    inside = _IS_TEXT.match(text)
    plain = words(text)
    number = number_of_words(plain) if len(plain) < 120 else None
    if number is not None:
        return Expression(Node("num", value=Fraction(number), name="int"))
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
        if re.search(r"\d", content) and not re.match(r"[A-Za-z]{2,}", content):
            return read(content)
        letter = re.fullmatch(r"\(?([A-Za-z])\)?\.?", content)
        return Text(letter.group(1).casefold() if letter else plain)
    if (_BARE_WORD.match(text) and _is_word(text)) or _WORDS_WITH_DIGITS.match(text):
        return Text(plain)
    return None


def _is_word(text: str) -> bool:
    """Return whether letters are a word: four or more, or three that repeat or start with a capital."""
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
    """Return whether a member of a list holds no relation or interval, which would make it a set of reals."""
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
    """Read an answer without top-level commas."""
    spend(40 + len(text) // 2)
    text = _without_lead(text)
    special = _special(text)
    if special is not None:
        return special
    for cut, op in ((_is_or, "or"), (_is_land, "and"), (_is_minus, "minus")):
        parts = split(text, cut)
        if len(parts) > 1:
            return Union(tuple(read(part.text) for part in parts), op)
    about = split(text, _is_approx)
    if len(about) > 1:
        text = about[-1].text if re.fullmatch(r"[A-Za-z]?", about[0].text) else about[0].text
    sides = split(text, _is_relation)
    if len(sides) > 1:
        return Relation(
            tuple(_side(side.text, is_first=at == 0) for at, side in enumerate(sides)),
            tuple(side.separator for side in sides[:-1]),
        )
    if _PLUS_MINUS.search(text):
        plus = _PLUS_MINUS.sub(lambda sign: "+" if sign.group() == "\\pm" else "-", text)
        minus = _PLUS_MINUS.sub(lambda sign: "-" if sign.group() == "\\pm" else "+", text)
        return Sequence((_read_one(plus), _read_one(minus)))
    return _of_matrix(text) or _enclosed(text) or _ratio(text) or _expression(text)


def _side(text: str, *, is_first: bool) -> Answer:
    """Read one side of a relation; the first may be a call such as `f(3)`, which counts as a name."""
    if is_first:
        call = _CALL.match(text)
        inside = text[call.end() - 1 :] if call is not None else ""
        if inside and closes_at_end(inside) and not re.fullmatch(r"\([a-z]\)", inside):
            return Expression(Node("var", name=skeleton(text)))
    return read(text)


def _of_matrix(text: str) -> Answer | None:
    """Read a matrix, a number times a matrix, or a determinant, which is a number."""
    if not text.endswith("matrix}"):
        return None
    matrix = _MATRIX.match(text)
    if matrix is not None and "\\begin" not in matrix.group(1):
        return _matrix(matrix.group(1))
    determinant = _DETERMINANT.match(text)
    if determinant is not None:
        rows = _matrix(determinant.group(1)).rows
        nodes = [[cell.node for cell in row if isinstance(cell, Expression)] for row in rows]
        if len(rows) > _MAX_DETERMINANT or any(len(row) != len(rows) for row in nodes):
            raise Unreadable("determinant")
        return Expression(_determinant(nodes))
    scaled = _SCALED_MATRIX.match(text)
    if scaled is None:
        return None
    head = "-1" if scaled[1].strip() == "-" else scaled[1]
    factor = _expression(head)
    cells = _matrix(scaled[2][len("\\begin{pmatrix}") : -len("\\end{pmatrix}")]).rows
    if not isinstance(factor, Expression) or factor.node.op == "add":
        raise Unreadable("unknown text before the matrix")
    return Matrix(tuple(tuple(_times(factor.node, cell) for cell in row) for row in cells))


def _times(factor: Node, cell: Answer) -> Expression:
    if not isinstance(cell, Expression):
        raise Unreadable("entry of a matrix")
    return Expression(Node("mul", (factor, cell.node)))


def _determinant(rows: list[list[Node]]) -> Node:
    """Expand by the first row."""
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for at, entry in enumerate(rows[0]):
        minor = _determinant([row[:at] + row[at + 1 :] for row in rows[1:]])
        term = Node("mul", (entry, minor))
        terms.append(Node("neg", (term,)) if at % 2 else term)
    return Node("add", tuple(terms))


def _matrix(body: str) -> Matrix:
    rows = [row for row in re.split(r"\\\\(?:\s*\[[^\]]*\])?", body) if row.strip()]
    return Matrix(tuple(tuple(_read_one(cell.strip()) for cell in row.split("&")) for row in rows))


def _enclosed(text: str) -> Answer | None:
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = text[2:-2].strip()
        builder = re.match(r"^\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?[|:]\s*(.*)$", inner, re.DOTALL)
        if builder is not None and re.search(r"[<>=]|\\(?:le|ge|ne|in)(?![A-Za-z])", builder.group(2)):
            return read(builder.group(2))
        return _sequence(split(inner, _is_comma), braced=True)
    if text.startswith("\\langle") and text.endswith("\\rangle"):
        inner = text[len("\\langle") : -len("\\rangle")]
        return Bracketed("(", tuple(_read_one(piece.text) for piece in split(inner, _is_comma)), ")")
    if len(text) < 3 or text[0] not in "([" or text[-1] not in ")]":
        return None
    if not closes_at_end(text):
        return None
    inner = text[1:-1]
    pair = _PAIR_OF_INTEGERS.fullmatch(inner)
    pieces = [Piece(part) for part in pair.groups()] if pair else split(inner, _is_comma)
    if len(pieces) < 2:
        is_wrapped = text[0] == "(" and text[-1] == ")" and (not _is_plain(inner) or _MORE.search(inner))
        return _read_one(inner) if is_wrapped else None
    return Bracketed(text[0], tuple(_read_one(piece.text) for piece in pieces), text[-1])


def _ratio(text: str) -> Answer | None:
    parts = split(text, _is_colon)
    if len(parts) < 2 or not all(part.text for part in parts):
        return None
    return Sequence(tuple(_expression(part.text) for part in parts), ordered=True)


def _expression(text: str) -> Expression | Text:
    modulus = None
    match = _MODULUS.search(text)
    if match is not None and match.start() > 0:
        modulus = Fraction(next(group for group in match.groups() if group))
        text = text[: match.start()].strip()
    measured = split_unit(_CUT_DECIMAL.sub(r"\1", _ORDINAL.sub("", text)))
    head = measured.head
    percent = measured.percent
    if (
        head.endswith("\\pct") and head.count("\\pct") == 1
    ):  # elsewhere it is a hundredth, as in a sum of shares
        head, percent = head.removesuffix("\\pct").strip(), True
    if measured.unit in ("celsius", "fahrenheit"):
        head = head.replace("\\deg", "").strip()
    try:
        node = parse(head)
    except Unreadable:
        if modulus is None and _is_prose(text):
            return Text(words(text))
        raise
    unit = measured.unit or ("deg" if _is_angle(node) else "")
    if (measured.factor, measured.plus) != (1, 0):
        whole = Node("add", (node, Node("num", value=measured.plus, name="dec"))) if measured.plus else node
        factor = Node("num", value=measured.factor, name="int")
        return Expression(Node("mul", (whole, factor)), unit, modulus, percent)
    literal = _DECIMAL.fullmatch(head)
    places = len(literal.group(2)) if literal else None
    digits = len(((literal.group(1) or "") + literal.group(2)).replace(",", "").lstrip("0")) if literal else 0
    return Expression(node, unit, modulus, percent, places, digits)


def _is_angle(node: Node) -> bool:
    """Return whether a node has a degree sign outside of functions such as sin."""
    return node.op == "deg" or (node.op != "fn" and any(_is_angle(arg) for arg in node.args))


def _is_prose(text: str) -> bool:
    """Return whether a text holds words, perhaps with numbers among them, and no mathematics."""
    bare = re.sub(r"\\text ?\{([^{}]*)\}", r" \1 ", text)
    end = 0
    for token in _PROSE_TOKEN.finditer(bare):
        if token.start() != end:
            return False
        end = token.end()
    if end != len(bare) or bare.count("(") != bare.count(")"):
        return False
    return re.search(r"[A-Za-z]{3}", bare) is not None or bool(bare != text and re.search(r"[A-Za-z]", bare))
