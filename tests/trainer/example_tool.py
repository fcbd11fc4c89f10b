"""A user's tool in one file."""

from __future__ import annotations

NAME = "count_divisors"
DESCRIPTION = "Number of positive divisors of an integer."
PARAMETERS = {"n": {"type": "integer", "description": "The integer, 1 or more."}}


def run(n: int) -> int:
    if n < 1:
        raise ValueError("n must be 1 or more")
    return sum(n % d == 0 for d in range(1, n + 1))
