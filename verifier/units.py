r"""Units of measure at the end of an answer: recognised, normalised, dropped by policy."""

from __future__ import annotations

import re

from verifier.tokens import FUNCTIONS

_KNOWN: dict[str, str] = {
    spelling: canonical
    for canonical, spellings in {
        "m": "m metre meter metres meters",
        "cm": "cm centimetre centimeter centimetres centimeters",
        "mm": "mm millimetre millimeter millimetres millimeters",
        "km": "km kilometre kilometer kilometres kilometers",
        "in": "inch inches",
        "ft": "ft foot feet",
        "yd": "yd yard yards",
        "mi": "mile miles",
        "s": "sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "hr hrs hour hours",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years yr yrs",
        "g": "g gram grams",
        "kg": "kg kilogram kilograms",
        "lb": "lb lbs pound pounds",
        "oz": "oz ounce ounces",
        "l": "l liter litre liters litres",
        "ml": "ml milliliter millilitre milliliters millilitres",
        "mph": "mph",
        "usd": "dollar dollars usd",
        "cent": "cent cents",
        "rad": "rad radian radians",
    }.items()
    for spelling in spellings.split()
}
_TEXT_TAIL = re.compile(
    r"(?P<head>.*?[\w})!])\s*(?:\\text\s*\{(?P<unit>[^{}]*)\}\s*(?:/\s*\\text\s*\{[^{}]*\})?)\s*"
    r"(?P<power>\^\s*\{?\s*\d\s*\}?)?\.?$",
    re.DOTALL,
)
_WORD_TAIL = re.compile(
    r"(?P<head>.*[\d})])\s*(?<![A-Za-z\\])(?P<unit>[A-Za-z]{2,}(?: [A-Za-z]{2,}){0,3}\.?)"
    r"(?P<power>\s*\^\s*\{?\s*\d\s*\}?)?$",
    re.DOTALL,
)
_FUNCTIONS = FUNCTIONS | {
    "pi",
    "and",
    "or",
    "mod",
    "inf",
    "infinity",
    "theta",
    "alpha",
    "beta",
    "gamma",
    "lambda",
}


def split_unit(text: str) -> tuple[str, str]:
    r"""The answer without its unit, and the unit in canonical form ('' when there is none or it is unknown).

    >>> split_unit(r"15\text{ cm}^2"), split_unit("5 minutes"), split_unit("5x")
    (('15', 'cm2'), ('5', 'min'), ('5x', ''))
    """
    match = _TEXT_TAIL.match(text)
    if match is not None:
        return match["head"].strip(), _canonical(match["unit"], match["power"])
    match = _WORD_TAIL.match(text)
    if match is None:
        return text, ""
    unit_words = match["unit"].rstrip(".").lower().split()
    if any(word in _FUNCTIONS for word in unit_words):
        return text, ""
    if len(unit_words) == 1 and unit_words[0] not in _KNOWN and len(unit_words[0]) < 4:
        return text, ""
    return match["head"].strip(), _canonical(match["unit"], match["power"])


def _canonical(unit: str, power: str | None) -> str:
    name = unit.lower().strip(" .")
    squared = re.match(r"(?:square|sq\.?)\s+(.*)", name)
    cubed = re.match(r"cubic\s+(.*)", name)
    bare = squared[1] if squared else cubed[1] if cubed else name
    known = _KNOWN.get(bare)
    if known is None:
        return ""
    digit = "2" if squared else "3" if cubed else re.sub(r"\D", "", power or "")
    return known + (digit if digit != "1" else "")
