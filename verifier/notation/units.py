"""`split_unit`: words after a number: units of measure, counted things, multipliers.

Only a unit of measure or a counted thing may be dropped, because it does not change the value; 'thousand' and 'and
a half' do. Any other word stays with the number: the number then equals only the same number with the same words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from verifier.notation.nouns import NOUNS, QUALIFIERS, singular
from verifier.notation.numerals import number_of_words
from verifier.notation.tokens import FUNCTIONS, GREEK

_KNOWN: dict[str, str] = {
    spelling: canonical
    for canonical, spellings in {
        "m": "m metre meter metres meters",
        "cm": "cm centimetre centimeter centimetres centimeters",
        "mm": "mm millimetre millimeter millimetres millimeters",
        "km": "km kilometre kilometer kilometres kilometers kms",
        "in": "inch inches",
        "ft": "ft foot feet",
        "yd": "yd yds yard yards",
        "mi": "mi mile miles",
        "acre": "acre acres",
        "ha": "ha hectare hectares",
        "s": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "h hr hrs hour hours",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years yr yrs",
        "g": "g gm gram grams",
        "mg": "mg milligram milligrams",
        "kg": "kg kilogram kilograms kgs kilo kilos",
        "t": "ton tons tonne tonnes",
        "lb": "lb lbs pound pounds",
        "oz": "oz ounce ounces",
        "l": "l liter litre liters litres",
        "ml": "ml milliliter millilitre milliliters millilitres",
        "gal": "gal gallon gallons",
        "qt": "qt quart quarts",
        "pt": "pint pints",
        "cup": "cup cups",
        "tbsp": "tbsp tablespoon tablespoons",
        "tsp": "tsp teaspoon teaspoons",
        "mi/h": "mph",
        "km/h": "kph kmh",
        "usd": "dollar dollars usd buck bucks",
        "cent": "cent cents",
        "eur": "euro euros eur",
        "gbp": "gbp",
        "jpy": "yen jpy",
        "inr": "rupee rupees inr",
        "deg": "deg degree degrees",
        "rad": "rad rads radian radians",
        "celsius": "celsius",
        "fahrenheit": "fahrenheit",
        "n": "n newton newtons",
        "j": "j joule joules",
        "w": "w watt watts",
        "v": "v volt volts",
        "pa": "pascal pascals",
        "hz": "hz hertz",
        "mol": "mol mole moles",
        "unit": "unit units",
        "am": "am",
        "pm": "pm",
    }.items()
    for spelling in spellings.split()
}
_VARIABLES = "s h m g l t n j w v mg gm mi pa ha qt pt"
_AMBIGUOUS_BARE = frozenset(_VARIABLES.split())
"""Units inside `\\text` only; elsewhere these are variables."""
_SCALES = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "quadrillion": 15,
    "hundreds": 2, "thousands": 3, "millions": 6, "billions": 9, "trillions": 12,
}  # fmt: skip
_DOZENS = {"dozen": 12, "dozens": 12, "score": 20, "gross": 144}
_EMPTY = frozenset({"of", "the", "a", "in", "total", "only", "altogether"})
_AND_A_PART = {
    "half": Fraction(1, 2), "third": Fraction(1, 3), "quarter": Fraction(1, 4), "fourth": Fraction(1, 4),
}  # fmt: skip
_FUNCTIONS = FUNCTIONS | GREEK | {"pi", "and", "or", "mod", "inf", "infinity"}
_TAIL_TOKEN = re.compile(
    r"(?P<text>\\text ?\{[^{}]*\})|(?P<command>\\[A-Za-z]+|\\.)|(?P<word>[A-Za-z]+)"
    r"|(?P<power>\^ ?(?:\{ ?-?\d ?\}|\d))|(?P<space> +)|(?P<mark>.)",
    re.DOTALL,
)
MONEY = {"\\usd": "usd", "\\eur": "eur", "\\gbp": "gbp", "\\jpy": "jpy"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A number, and the meaning of its words."""

    head: str
    """The text of the number alone."""
    unit: str = ""
    """Canonical unit; `#` and the singular words for counted things; `?` and the words if they are unknown."""
    factor: Fraction = Fraction(1)
    """Factor of the number from its words, such as 1000."""
    plus: Fraction = Fraction(0)
    """Addend before the factor, such as a half."""
    percent: bool = False


def split_unit(text: str) -> Measured:
    r"""Split a text into a number and its words.

    >>> split_unit(r"15\text{ cm}^2").unit, split_unit("5 minutes").unit, split_unit("5x").head
    ('cm2', 'min', '5x')
    >>> split_unit("5 thousand").factor, split_unit(r"3\text{ and a half}").plus, split_unit("3 wugs each").unit
    (Fraction(1000, 1), Fraction(1, 2), '?wugs each')
    """
    money = next((sign for sign in MONEY if sign in text), "")
    bare = text.replace(money, " ").strip() if money else text
    start = _tail_start(bare)
    if start is None:
        return Measured(bare, MONEY.get(money, ""))
    found = _interpret(bare[:start].strip(), bare[start:])
    if not money:
        return found
    if found.unit[:1] == "/":
        return Measured(found.head, MONEY[money] + found.unit, found.factor, found.plus, found.percent)
    if found.unit in ("", MONEY[money]) or found.unit[0] == "#":
        return Measured(found.head, MONEY[money], found.factor, found.plus, found.percent)
    return Measured(found.head, "?" + MONEY[money] + found.unit, found.factor, found.plus)


def _tail_start(text: str) -> int | None:
    """Return the start of the words after the number; None when there are none."""
    if "\\text" not in text and not re.search(r"[A-Za-z]{2}", text):
        return None
    tokens = list(_TAIL_TOKEN.finditer(text))
    start, after_word = None, False
    for at in range(len(tokens) - 1, -1, -1):
        kind, piece = tokens[at].lastgroup, tokens[at].group()
        is_word = kind == "text" or (kind == "word" and _is_tail_word(piece, tokens, at))
        if is_word:
            start, after_word = tokens[at].start(), True
        elif kind == "power":
            if at == 0 or tokens[at - 1].lastgroup not in ("text", "word"):
                break
        elif not (kind == "space" or piece in ".,-" or (piece in "/()" and (after_word or piece == ")"))):
            break
    if start is None or start == 0:
        return None
    if text[start:].count("(") > text[start:].count(")") or text[:start].rstrip().endswith("("):
        return text[:start].rfind("(") if text[:start].rstrip().endswith("(") else None
    return start


def _is_tail_word(word: str, tokens: list[re.Match[str]], at: int) -> bool:
    """Return whether a word is no product of variables: it is known, or long enough and set apart by a space."""
    if word in _FUNCTIONS or word.lower() in ("and", "or", "mod"):
        return word.lower() == "and" and any(
            token.group() in _AND_A_PART for token in tokens[at + 1 : at + 6]
        )
    lower = word.lower()
    if lower in _KNOWN or lower in _SCALES or lower in _DOZENS:
        return lower not in _AMBIGUOUS_BARE
    previous = tokens[at - 1].lastgroup if at else ""
    if len(word) == 1:
        return (
            lower == "a"
            and previous == "space"
            and at + 1 < len(tokens)
            and tokens[at + 1].lastgroup == "space"
        )
    return previous in ("space", "text") and (len(word) >= 3 or lower in QUALIFIERS)


_IN_BRACKETS = re.compile(r" *\( *([A-Za-z -]+?) *\) *")
_HYPHENATED = re.compile(
    r"\b(?:non-(?=[a-z])|(?:two|three|four|five|six|seven|eight|nine|ten)[- ](digit|letter|element)\b)"
)


def _interpret(head: str, tail: str) -> Measured:
    plain = re.sub(r"\\text ?\{([^{}]*)\}", r" \1 ", tail).replace("/", " per ")
    plain = re.sub(r"\b([A-Za-z])\.(?=[A-Za-z]\b)", r"\1", plain)
    again = _IN_BRACKETS.fullmatch(plain)
    if again and head.isdecimal() and len(head) < 16 and number_of_words(again[1].lower()) == int(head):
        return Measured(head)  # '7 (seven)'
    plain = _HYPHENATED.sub(lambda match: match[1] or "", plain)
    phrase = re.findall(r"[A-Za-z]+|\^ ?\{? ?-?\d ?\}?|\d+|\S", plain)
    if plain.count("(") != plain.count(")"):
        return Measured(head, "?" + " ".join(phrase).lower())
    phrase = [word for word in phrase if word not in (".", ",", "(", ")", ";")]
    if any(re.fullmatch(r"\d+|[^A-Za-z^]", word) for word in phrase):
        return Measured(head, "?" + " ".join(phrase).lower())
    case = phrase
    phrase = [word.lower() for word in phrase]
    factor, plus, percent = Fraction(1), Fraction(0), False
    if phrase[:2] == ["and", "a"] and len(phrase) > 2 and phrase[2] in _AND_A_PART:
        plus, phrase, case = _AND_A_PART[phrase[2]], phrase[3:], case[3:]
    while phrase and (phrase[0] in _SCALES or phrase[0] in _DOZENS):
        factor *= Fraction(10) ** _SCALES[phrase[0]] if phrase[0] in _SCALES else _DOZENS[phrase[0]]
        phrase, case = phrase[1:], case[1:]
    if phrase[:1] in (["percent"], ["pct"]) or phrase[:2] == ["per", "cent"]:
        percent, drop = True, 2 if phrase[0] == "per" else 1
        phrase, case = phrase[drop:], case[drop:]
    unit = _unit_of(phrase, case)
    return Measured(head, unit, factor, plus, percent)


def _unit_of(phrase: list[str], case: list[str]) -> str:
    """Return the canonical unit of a phrase without multipliers."""
    if not phrase or (phrase != ["in"] and all(word in _EMPTY for word in phrase)):
        return ""
    if phrase[0] == "per":
        below = _measure(phrase[1:])
        return f"/{below}" if below else "?" + " ".join(phrase)
    above, _, below = " ".join(phrase).partition(" per ")
    top = _measure(above.split())
    if top is not None and not below:
        is_letter = len(phrase) == 1 and len(phrase[0]) == 1
        return top if not is_letter or case[0] in "mshglLNJWV" else "?" + case[0]
    bottom = _measure(below.split()) if below else None
    if top is not None and bottom is not None:
        return f"{top}/{bottom}"
    nouns = _counted(phrase)
    return f"#{nouns}" if nouns else "?" + " ".join(phrase)


_TUPLES = frozenset({"pairs", "triples", "triplets", "quadruples"})
"""Counted only in this order: three pairs of shoes are six."""


def _counted(phrase: list[str]) -> str:
    """Return the nouns of counted things, in the singular; '' if a word is none."""
    tuples = _TUPLES if "ordered" in phrase else frozenset[str]()
    if not all(word in NOUNS | QUALIFIERS | tuples or singular(word) in NOUNS for word in phrase):
        return ""
    return " ".join(sorted({singular(word) for word in phrase if word not in QUALIFIERS}))


def _measure(phrase: list[str]) -> str | None:
    """Return `square cm`, `cm squared`, `cm ^2`, `of an inch` in canonical form; None for anything else."""
    power = ""
    names: list[str] = []
    phrase = ["inch" if word == "in" and _is_inch(phrase) else word for word in phrase]
    for word in phrase:
        digit = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}.get(word)
        if word.startswith("^"):
            digit = re.sub(r"[^\d-]", "", word)
        if digit:
            if power:
                return None
            power = digit
        elif word in _KNOWN:
            names.append(_KNOWN[word])
        elif word not in QUALIFIERS:
            return None
    if len(names) == 2 and names[0] == "deg" and names[1] in ("celsius", "fahrenheit"):
        names = names[1:]
    if len(names) != 1:
        return None
    return names[0] + (power if power != "1" else "")


def _is_inch(phrase: list[str]) -> bool:
    """Return whether a phrase is `in`, `sq in` or `in ^2`, with powers only."""
    return all(
        word in ("in", "sq", "square", "cubic", "cu", "squared", "cubed") or word[0] == "^" for word in phrase
    )


def same_unit(a: str, b: str) -> bool | None:
    """Return whether two units allow two numbers to be equal; None when unknown words leave that open.

    >>> same_unit("cm", ""), same_unit("cm", "m"), same_unit("?each", ""), same_unit("?each", "?each")
    (True, False, None, True)
    """
    if a == b:
        return True
    if a[:1] == "?" or b[:1] == "?":
        return None
    if not a or not b:
        return True
    if a[0] == b[0] == "#":
        return True if set(a[1:].split()) & set(b[1:].split()) else None
    if a[0] == "#" or b[0] == "#":
        return None
    if a[:4] == "unit" or b[:4] == "unit":
        return re.sub(r"[^\d]", "", a) == re.sub(r"[^\d]", "", b)
    return False
