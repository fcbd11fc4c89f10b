"""`equal` and `math_verify`: math-verify and sympy in a worker process, for notation that the parser cannot read.

They set no alarm and no signal; the parent kills the process when a case takes too long.
"""

from __future__ import annotations

from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, verify
from math_verify import parse as _parse
from sympy import Basic, Expr, simplify
from sympy.core.relational import Relational

RELATIVE = 1e-12


def equal(gold: str, answer: str) -> bool | None:
    """Compare two LaTeX answers: exactly, then relatively, never absolutely. None when either cannot be parsed."""
    left, right = _value(gold), _value(answer)
    if left is None or right is None:
        return None
    if isinstance(left, Expr) and isinstance(right, Expr):
        return _same_expression(left, right)
    if isinstance(left, Relational) and isinstance(right, Relational):
        return bool(left == right or left.canonical == right.canonical)
    return bool(left == right)


def math_verify(gold: str, response: str) -> bool:
    """Return the verdict of math-verify as the release calls it: LaTeX for the gold, anything in the response."""
    golds = _read(f"\\boxed{{{gold}}}", LatexExtractionConfig())
    found = _read(response, ExprExtractionConfig(), LatexExtractionConfig())
    return bool(verify(golds, found, timeout_seconds=None))


def _read(text: str, *targets: Any) -> list[Any]:
    """Parse without the alarm of the library, a signal that only the main thread may set."""
    no_alarm: Any = None
    return _parse(text, extraction_config=targets, parsing_timeout=no_alarm)


def _value(text: str) -> Any:
    parsed = _read(f"\\boxed{{{text}}}", LatexExtractionConfig())
    values = [value for value in parsed if isinstance(value, Basic)]
    return values[0].doit() if len(values) == 1 else None


def _same_expression(left: Expr, right: Expr) -> bool:
    if left == right:
        return True
    if left.free_symbols != right.free_symbols:
        return False
    if not left.free_symbols:
        a, b = complex(left.evalf(30)), complex(right.evalf(30))
        scale = max(abs(a), abs(b))
        if scale == 0 or abs(a - b) > RELATIVE * scale:
            return False
    return simplify(left - right) == 0


OPERATIONS = {"equal": equal, "math_verify": math_verify}


def warm_up() -> None:
    """Build the tables and import the modules of each kind of use, before the first case."""
    for expression in (
        "\\frac{1}{2}",
        "\\int_0^1 x dx",
        "\\lim_{x \\to 0} x",
        "\\sum_{k=1}^{\\infty} \\frac{1}{2^k}",
    ):
        equal(expression, "0.5")
