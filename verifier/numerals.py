"""Numbers as they are written: digits of any length and in any base."""

from __future__ import annotations

from fractions import Fraction

from verifier.budget import spend

_CHUNK = 4_000
"""Digits that Python converts at once; its own limit is 4,300 and it raises beyond."""
MAX_EXACT_EXPONENT = 5_000
"""Largest power of ten of a literal that is written out; a larger one stays a power."""


def whole(digits: str, base: int = 10) -> int:
    """The integer that digits spell, however many there are.

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
    """Value and decimal exponent of a literal such as `12.5` or `3e20`; the exponent is 0 where it is written out.

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
