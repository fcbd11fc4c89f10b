"""Solve rates: how often a policy solves each problem. One JSON line per problem; read by recipes and by people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from records.errors import ConfigError
from records.files import read_jsonl


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRate:
    """Rollouts of one problem."""

    id: str
    solved: int
    graded: int
    """Rollouts that the infrastructure did not lose."""
    tokens: int = 0
    """Sampled in all its rollouts."""


def read_rates(path: Path) -> list[SolveRate]:
    """Raises ConfigError naming the line that is no solve rate."""
    rates = []
    for number, row in enumerate(read_jsonl(path), 1):
        try:
            rate = SolveRate(**row)
        except TypeError:
            raise ConfigError(f"{path}, line {number}: needs id, solved and graded") from None
        if not (isinstance(rate.id, str) and 0 <= rate.solved <= rate.graded):
            raise ConfigError(f"{path}, line {number}: solved must lie between 0 and graded")
        rates.append(rate)
    return rates


def histogram(rates: Sequence[SolveRate], rollouts: int) -> list[int]:
    """Problems by solved rollouts, 0 to `rollouts`; problems with lost rollouts are scaled to the nearest.

    >>> histogram([SolveRate(id="a", solved=8, graded=8), SolveRate(id="b", solved=1, graded=4)], 8)
    [0, 0, 1, 0, 0, 0, 0, 0, 1]
    """
    counted = Counter(round(rate.solved / rate.graded * rollouts) for rate in rates if rate.graded)
    return [counted[solved] for solved in range(rollouts + 1)]
