"""`mix`: the standard workload of seeded programs, each with its expected output."""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = ("print", "numpy", "sympy", "error", "loop")
SHARES = (60, 15, 15, 5, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program and its expected end."""

    kind: str
    code: str
    stdout: str = ""
    """Expected output; for an error, a part of its message; for a loop, nothing: it must time out."""


def mix(size: int, *, seed: int = 7, loops: bool) -> list[Program]:
    """60% arithmetic, 15% numpy, 15% sympy, 5% KeyError, 5% endless loops (arithmetic instead without `loops`)."""
    stream = random.Random(seed)
    kinds = stream.choices(KINDS, weights=SHARES, k=size)
    return [_program(kind if loops or kind != "loop" else "print", stream) for kind in kinds]


def _program(kind: str, stream: random.Random) -> Program:
    a, b = stream.randrange(2, 99), stream.randrange(2, 99)
    if kind == "print":
        code = f"total = 0\nfor k in range({a}):\n    total += k * {b}\nprint(total)"
        return Program(kind=kind, code=code, stdout=str(a * (a - 1) // 2 * b))
    if kind == "numpy":
        code = f"import numpy as np\nprint(int(np.sum(np.arange({a}) ** 2)) + {b})"
        return Program(kind=kind, code=code, stdout=str(sum(k * k for k in range(a)) + b))
    if kind == "sympy":
        small, large = sorted((a, a + b))
        code = f"import sympy as sp\nx = sp.symbols('x')\nprint(sp.solve((x - {small}) * (x - {large}), x))"
        return Program(kind=kind, code=code, stdout=f"[{small}, {large}]")
    if kind == "error":
        return Program(kind=kind, code=f"table = {{}}\nprint(table['{a}'])", stdout=f"'{a}'")
    return Program(kind=kind, code="while True:\n    pass")
