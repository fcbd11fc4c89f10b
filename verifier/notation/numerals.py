"""`whole` and `decimal`: numbers as written, with digits of any length and in any base."""

from __future__ import annotations

from fractions import Fraction

from verifier.budget import spend

_CHUNK = 4_000
"""Digits that Python converts at once; it raises beyond 4,300."""
MAX_EXACT_EXPONENT = 5_000
"""Largest power of ten that a literal is expanded to; a larger one stays a power."""


def whole(digits: str, base: int = 10) -> int:
    """Return the integer that digits spell, in any number.

    >>> whole("9" * 5000) == 10**5000 - 1, whole("312", 4)
    (True, 54)
    """
    if len(digits) <= _CHUNK:
        return int(digits, base)
    spend(len(digits) ** 2 // 20_000)
    value = 0
    for at in range(0, len(digits), _CHUNK):
        piece = digits[at : at + _CHUNK]
        value = value * base ** len(piece) + int(piece, base)
    return value


def decimal(text: str) -> tuple[Fraction, int]:
    """Return value and decimal exponent of a literal such as `12.5` or `3e20`; an expanded literal has exponent 0.

    >>> decimal("12.5"), decimal("3e2"), decimal("1e999999")
    ((Fraction(25, 2), 0), (Fraction(300, 1), 0), (Fraction(1, 1), 999999))
    """
    mantissa, _, power = text.lower().partition("e")
    before, _, after = mantissa.partition(".")
    value = Fraction(whole((before + after) or "0"), 10 ** len(after))
    sign, digits = (-1, power[1:]) if power[:1] == "-" else (1, power.lstrip("+"))
    exponent = sign * whole(digits) if digits else 0
    if abs(exponent) > MAX_EXACT_EXPONENT:
        return value, exponent
    return value * Fraction(10) ** exponent, 0


_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
SMALL_WORDS = tuple(_SMALL.split())
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUE = {word: at for at, word in enumerate(SMALL_WORDS)} | {
    word: 10 * at for at, word in enumerate(_TENS.split(), 2)
}
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def number_of_words(text: str) -> int | None:
    """Return the integer that words spell; None if a word is no numeral, or the words do not fit together.

    >>> number_of_words("twenty-five"), number_of_words("minus one hundred and two"), number_of_words("two lines")
    (25, -102, None)
    >>> number_of_words("five two"), number_of_words("three thousand four"), number_of_words("a hundred")
    (None, 3004, 100)
    """
    names = text.replace("-", " ").split()
    if len(names) > 12:
        return None
    sign = -1 if names[:1] in (["minus"], ["negative"]) else 1
    names = names[1:] if sign < 0 else names
    if len(names) > 1 and names[0] == "a":
        names = ["one", *names[1:]]
    total, group, room = 0, 0, 1000
    last_scale = 10**15
    for at, name in enumerate(names):
        if name == "and" and 0 < at < len(names) - 1 and names[at - 1] == "hundred":
            continue
        if name in _VALUE and _VALUE[name] < room:
            value = _VALUE[name]
            if group and value == 0:
                return None
            group, room = group + value, 10 if value >= 20 else 1
        elif name == "hundred" and 0 < group < 10:
            group, room = group * 100, 100
        elif name in _SCALE and group and _SCALE[name] < last_scale:
            last_scale = _SCALE[name]
            total, group, room = total + group * last_scale, 0, 1000
        else:
            return None
    return sign * (total + group) if names else None
