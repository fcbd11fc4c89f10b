"""`value_of` and `agree`: values of expressions, exact rationals or complex numbers of 100 digits.

Every size is bounded. Two expressions are equal when they agree at fixed sample points of their variables. The module
uses neither `eval` nor a symbolic engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath

from verifier.budget import TooHeavy, spend
from verifier.notation.latex import Node, Unreadable

EXACT_BITS = 1 << 17
"""Largest numerator or denominator computed exactly."""
EXACT_FACTORIAL = 3000
MAX_TERMS = 2000
"""Longest finite sum or product that is computed term by term."""
MAX_LOG10 = 1e18
"""Largest decimal exponent of an approximate value."""
DIGITS = 100
AGREE_DIGITS = 75

_CONTEXT = mpmath.mp.clone()
_CONTEXT.dps = DIGITS


class Undefined(ValueError):
    """The expression has no value here: division by zero, a pole, an infinity inside."""


class _NotRational(ValueError):
    """The expression requires an approximate value."""


def _points() -> tuple[tuple[Fraction, ...], ...]:
    """Return eight fixed sample points for up to 30 variables; two of every three have mixed signs."""
    state = 12345
    rows = []
    for row in range(9):
        values = []
        for _ in range(30):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            value = Fraction(31 + (state >> 40) % 331, 97 + (state >> 20) % 53)
            values.append(-value if row % 3 and (state >> 50) % 2 else value)
        rows.append(tuple(values))
    return tuple(rows)


_POINTS = _points()


def agree(a: Node, b: Node) -> bool:
    """Return whether two expressions are equal wherever both are real (or, if they never are, as complex numbers).

    Raises:
        TooHeavy: they look equal but are too large to be compared exactly.

    >>> from verifier.notation.latex import parse
    >>> agree(parse("(y-3)^2"), parse("y^2-6y+9")), agree(parse("sqrt(x^2)"), parse("x"))
    (True, False)
    """
    names = sorted(a.variables() | b.variables())
    spend(20)
    if len(names) > len(_POINTS[0]):
        raise TooHeavy("too many variables")
    if not names:
        return same_value(value_of(a, {}), value_of(b, {}))
    complex_pairs = []
    num_real = 0
    for point in _POINTS:
        where = dict(zip(names, point, strict=False))
        try:
            pair = value_of(a, where), value_of(b, where)
        except Undefined:
            continue
        if is_real(pair[0]) and is_real(pair[1]):
            num_real += 1
            if not same_value(*pair):
                return False
        else:
            complex_pairs.append(pair)
    if num_real:
        return True
    return bool(complex_pairs) and all(same_value(*pair) for pair in complex_pairs[:3])


Number = Fraction | Any
"""A Fraction, or a complex number of the 100-digit context."""


def value_of(node: Node, where: Mapping[str, Fraction]) -> Number:
    """Return the exact value if it is rational and small enough, else the approximate one."""
    try:
        return _exact(node, where)
    except _NotRational:
        pass
    value = _approximate(node, where)
    if not _CONTEXT.isfinite(value):
        raise Undefined("not finite")
    return value


def is_real(value: Number) -> bool:
    """Return whether the imaginary part is only rounding."""
    if isinstance(value, Fraction):
        return True
    scale = abs(value)
    return scale == 0 or abs(_CONTEXT.im(value)) <= scale * _CONTEXT.mpf(10) ** -AGREE_DIGITS


def as_real(value: Number) -> Any:
    """Convert to a real number of the 100-digit context."""
    if isinstance(value, Fraction):
        return _from_fraction(value)
    return _CONTEXT.re(value)


def same_value(a: Number, b: Number) -> bool:
    """Compare two rationals exactly, and other values to 75 of 100 digits, relatively.

    Raises:
        TooHeavy: both are so large that 100 digits do not separate neighbours.
    """
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    spend(30)
    left = _from_fraction(a) if isinstance(a, Fraction) else a
    right = _from_fraction(b) if isinstance(b, Fraction) else b
    scale = max(abs(left), abs(right))
    distance = abs(left - right)
    if scale == 0:
        return True
    if _is_zero(a) or _is_zero(b):
        # A sum that cancels leaves a residue of rounding.
        return scale < _CONTEXT.mpf(10) ** -(DIGITS - 12)
    if distance > scale * _CONTEXT.mpf(10) ** -AGREE_DIGITS:
        return False
    if scale > _CONTEXT.mpf(10) ** AGREE_DIGITS:
        raise TooHeavy("too large to compare exactly")
    return True


def _is_zero(value: Number) -> bool:
    return isinstance(value, Fraction) and value == 0


def _from_fraction(value: Fraction) -> Any:
    return _CONTEXT.mpf(value.numerator) / value.denominator


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > EXACT_BITS:
        raise _NotRational
    return value


def _bits(*values: Fraction) -> int:
    return max(max(value.numerator.bit_length(), value.denominator.bit_length()) for value in values)


def _charge(*values: Fraction) -> None:
    """Charge an operation on exact values: a common divisor takes the square of their length."""
    spend(3 + _bits(*values) ** 2 // 100_000)


def _exact(node: Node, where: Mapping[str, Fraction]) -> Fraction:
    op, args = node.op, node.args
    spend(2)
    if op == "num":
        return node.value
    if op == "var":
        return where[node.name]
    if op == "const":
        raise _NotRational
    if op in ("sum", "prod"):
        return _exact_series(node, where)
    values = [_exact(arg, where) for arg in args]
    if op == "add":
        return _exact_sum(values)
    if op == "neg":
        return -values[0]
    if op == "deg":
        return values[0]
    if op == "mul":
        _charge(*values)
        return _bounded(values[0] * values[1])
    if op == "div":
        if values[1] == 0:
            raise Undefined("division by zero")
        _charge(*values)
        return _bounded(values[0] / values[1])
    if op == "pow":
        return _exact_power(values[0], values[1])
    if op in ("fact", "fact2"):
        return Fraction(_exact_factorial(values[0], step=2 if op == "fact2" else 1))
    if op == "binom":
        return _exact_binomial(values[0], values[1])
    return _exact_function(node.name, values)


def _exact_sum(values: list[Fraction]) -> Fraction:
    total = values[0]
    for value in values[1:]:
        _charge(total, value)
        total = _bounded(total + value)
    return total


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    if base == 0:
        if exponent <= 0:
            raise Undefined("power of zero")
        return base
    if exponent.denominator == 1:
        if base not in (1, -1) and _bits(base) * abs(exponent) > EXACT_BITS:
            raise _NotRational
        spend(500 if abs(exponent) > 500 else 5)
        return base ** int(exponent) if abs(base) != 1 else (base if exponent % 2 else Fraction(1))
    if base > 0 and exponent.denominator <= 64:
        above = _integer_root(base.numerator, exponent.denominator)
        below = _integer_root(base.denominator, exponent.denominator)
        if above is not None and below is not None:
            return _exact_power(Fraction(above, below), Fraction(exponent.numerator))
    if base < 0 and exponent.denominator % 2 and exponent.denominator <= 64:
        # The real root, as taught at school: the cube root of -8 is -2.
        root = _exact_power(-base, Fraction(1, exponent.denominator))
        return _exact_power(-root, Fraction(exponent.numerator))
    raise _NotRational


def _integer_root(value: int, degree: int) -> int | None:
    if value.bit_length() > 4096:
        raise _NotRational
    spend(20 + value.bit_length() * degree // 8)
    if degree == 2:
        root = math.isqrt(value)
    else:
        with _CONTEXT.workdps(value.bit_length() // 3 + 20):
            root = int(_CONTEXT.nint(_CONTEXT.root(value, degree)))
    return root if root**degree == value else None


def _exact_factorial(value: Fraction, *, step: int) -> int:
    if value.denominator != 1 or not 0 <= value <= EXACT_FACTORIAL:
        raise _NotRational
    spend(5 + int(value) ** 2 // 10_000)
    return math.factorial(int(value)) if step == 1 else math.prod(range(int(value), 0, -2))


def _exact_binomial(upper: Fraction, lower: Fraction) -> Fraction:
    if upper.denominator != 1 or lower.denominator != 1 or not 0 <= upper <= EXACT_FACTORIAL or lower < 0:
        raise _NotRational
    spend(5 + int(upper) ** 2 // 10_000)
    return Fraction(math.comb(int(upper), int(lower)))


def _exact_function(name: str, values: list[Fraction]) -> Fraction:
    if name == "abs":
        return abs(values[0])
    if name == "floor":
        return Fraction(math.floor(values[0]))
    if name == "ceil":
        return Fraction(math.ceil(values[0]))
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    if name in ("gcd", "lcm") and all(value.denominator == 1 for value in values):
        fold = math.gcd if name == "gcd" else math.lcm
        result = values[0]
        for value in values:
            _charge(result, value)
            result = _bounded(Fraction(fold(int(result), int(value))))
        return result
    raise _NotRational


def _series_range(node: Node, where: Mapping[str, Fraction]) -> range:
    low, high = (_exact(arg, where) for arg in node.args[:2])
    if low.denominator != 1 or high.denominator != 1:
        raise _NotRational
    if high - low > MAX_TERMS:
        raise TooHeavy(f"a sum of more than {MAX_TERMS} terms")
    return range(int(low), int(high) + 1)


def _exact_series(node: Node, where: Mapping[str, Fraction]) -> Fraction:
    total = Fraction(0 if node.op == "sum" else 1)
    for index in _series_range(node, where):
        term = _exact(node.args[2], {**where, node.name: Fraction(index)})
        _charge(total, term)
        total = _bounded(total + term if node.op == "sum" else total * term)
    return total


_COST = {"pow": 100, "fact": 250, "binom": 700, "fn": 120, "num": 10}
"""Steps of an operation on 100 digits, about its time in microseconds; any other operation takes 6."""


def _approximate(node: Node, where: Mapping[str, Fraction]) -> Any:
    op, args = node.op, node.args
    spend(_COST.get(op, 6))
    if op == "num":
        return _from_fraction(node.value)
    if op == "var":
        return _from_fraction(where[node.name])
    if op == "const":
        return _constant(node.name)
    if op in ("sum", "prod"):
        return _approximate_series(node, where)
    if op == "fn":
        return _function(node, where)
    values = [_approximate(arg, where) for arg in args]
    if op == "add":
        return _CONTEXT.fsum(values)
    if op == "neg":
        return -values[0]
    if op == "deg":
        return values[0]
    if op == "mul":
        return values[0] * values[1]
    if op == "div":
        if values[1] == 0:
            raise Undefined("division by zero")
        return values[0] / values[1]
    if op == "pow":
        return _real_root(values[0], args[1], where) or _power(values[0], values[1])
    if op == "fact":
        return _gamma_of(values[0])
    if op == "binom":
        upper, lower = values
        return _gamma_of(upper) / _gamma_of(lower) / _gamma_of(upper - lower)
    raise TooHeavy("double factorial")


def _constant(name: str) -> Any:
    if name == "pi":
        return +_CONTEXT.pi
    if name == "e":
        return +_CONTEXT.e
    if name == "i":
        return _CONTEXT.mpc(0, 1)
    raise Undefined("infinity inside an expression")


def _real_root(base: Any, exponent: Node, where: Mapping[str, Fraction]) -> Any:
    """Return the real odd root of a negative number; None where the exponent is not such a root."""
    if _CONTEXT.im(base) != 0 or _CONTEXT.re(base) >= 0:
        return None
    try:
        power = _exact(exponent, where)
    except _NotRational:
        return None
    if power.denominator % 2 == 0 or power.denominator == 1:
        return None
    root = -_power(-_CONTEXT.re(base), _from_fraction(Fraction(1, power.denominator)))
    return _power(root, _from_fraction(Fraction(power.numerator)))


def _power(base: Any, exponent: Any) -> Any:
    if base == 0:
        if _CONTEXT.re(exponent) <= 0:
            raise Undefined("power of zero")
        return base
    if base == 1:
        return base
    if abs(exponent) > 1e19 or abs(exponent * _CONTEXT.log(abs(base))) > MAX_LOG10:
        raise TooHeavy("exponent")
    return _CONTEXT.power(base, exponent)


def _gamma_of(value: Any) -> Any:
    if abs(value) > 1e12:
        raise TooHeavy("factorial")
    try:
        return _CONTEXT.gamma(value + 1)
    except ValueError:
        raise Undefined("pole") from None


def _approximate_series(node: Node, where: Mapping[str, Fraction]) -> Any:
    try:
        indices = _series_range(node, where)
    except _NotRational:
        raise Unreadable("infinite sum") from None
    total = _CONTEXT.mpf(0 if node.op == "sum" else 1)
    for index in indices:
        term = _approximate(node.args[2], {**where, node.name: Fraction(index)})
        total = total + term if node.op == "sum" else total * term
    return total


_MP_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "ln": "log"}
_ANGLE = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))


def _function(node: Node, where: Mapping[str, Fraction]) -> Any:
    name = node.name
    values = [_approximate(arg, where) for arg in node.args]
    if name in _ANGLE and _has_degrees(node.args[0]):
        values = [values[0] * _CONTEXT.pi / 180]
    if any(abs(value) > 1e60 for value in values) and name not in ("abs", "ln", "log"):
        raise TooHeavy(name)
    try:
        if name in ("floor", "ceil", "max", "min"):
            real = [as_real(value) for value in values]
            return {"floor": _CONTEXT.floor, "ceil": _CONTEXT.ceil, "max": max, "min": min}[name](*real)
        if name == "abs":
            return abs(values[0])
        if name == "exp":
            return _power(+_CONTEXT.e, values[0])
        if name == "log" and len(values) == 2:
            return _CONTEXT.log(values[0]) / _CONTEXT.log(values[1])
        if name in ("gcd", "lcm") or len(values) != 1:
            raise Undefined(name)
        return getattr(_CONTEXT, _MP_NAMES.get(name, name))(values[0])
    except (ValueError, ZeroDivisionError) as error:
        raise Undefined(f"{name}: {error}") from None


def _has_degrees(node: Node) -> bool:
    return node.op == "deg" or any(_has_degrees(arg) for arg in node.args)
