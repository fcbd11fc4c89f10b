"""Which problems a step works on: a pure function of seed, pool and step, so that resuming needs no state.

Each epoch is a permutation of the pool; a step takes the next so many (public faults B31, B46).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from trainer.seeds import derive_seed
from trainer.types import Problem


def problems_of_step(pool: Sequence[Problem], step: int, count: int, seed: int) -> list[Problem]:
    """The `count` problems of `step` (counted from 1). A step that crosses an epoch skips to problems it has not yet.

    >>> pool = [Problem(id=str(i), prompt="", answer="0") for i in range(5)]
    >>> seen = [p.id for step in (1, 2, 3, 4, 5) for p in problems_of_step(pool, step, 2, 0)]
    >>> sorted(seen[:4]) == sorted(set(seen[:4])), len(seen)
    (True, 10)
    """
    if count > len(pool):
        raise ValueError(f"a step of {count} problems needs a pool of at least as many; it holds {len(pool)}")
    first = (step - 1) * count
    chosen: dict[str, Problem] = {}
    position = first
    while len(chosen) < count:
        epoch, offset = divmod(position, len(pool))
        problem = _permutation(pool, epoch, seed)[offset]
        chosen.setdefault(problem.id, problem)
        position += 1
    return list(chosen.values())


def _permutation(pool: Sequence[Problem], epoch: int, seed: int) -> list[Problem]:
    order = sorted(pool, key=lambda problem: problem.id)
    Random(derive_seed(seed, "cursor", epoch)).shuffle(order)
    return order
