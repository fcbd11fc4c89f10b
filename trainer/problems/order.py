"""`problems_of_step`: the problems of a step as a pure function of seed, pool and step, so resuming needs no state.

Every epoch is a permutation of the pool, and no step holds a problem twice (public faults B31, B46). A step may end
one epoch and begin the next; the next permutation then starts with problems that this step does not hold yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from records.problem import Problem
from records.seeds import derive_seed


def problems_of_step(pool: Sequence[Problem], step: int, count: int, seed: int) -> list[Problem]:
    """Return the `count` problems of `step` (counted from 1).

    >>> pool = [Problem(id=str(i), prompt="", answer="0") for i in range(5)]
    >>> seen = [p.id for step in (1, 2, 3, 4, 5) for p in problems_of_step(pool, step, 2, 0)]
    >>> sorted(seen[:5]) == sorted(seen[5:]) == ["0", "1", "2", "3", "4"]
    True
    """
    if count > len(pool):
        raise ValueError(f"a step of {count} problems needs a pool of at least as many; it holds {len(pool)}")
    epoch, offset = divmod((step - 1) * count, len(pool))
    current = _permutation(pool, epoch, count, seed)
    chosen = current[offset : offset + count]
    if len(chosen) < count:
        chosen += _following(pool, epoch + 1, count, seed, current)[: count - len(chosen)]
    return chosen


def _permutation(pool: Sequence[Problem], epoch: int, count: int, seed: int) -> list[Problem]:
    """Order of one epoch. It depends on all epochs since the last one whose end was also the end of a step."""
    first = epoch
    while first and (first * len(pool)) % count:
        first -= 1
    order = _shuffled(pool, first, seed)
    for number in range(first + 1, epoch + 1):
        order = _following(pool, number, count, seed, order)
    return order


def _following(
    pool: Sequence[Problem], epoch: int, count: int, seed: int, before: Sequence[Problem]
) -> list[Problem]:
    """Order of `epoch`: the first problems complete the step that `before` began, without a repetition."""
    order = _shuffled(pool, epoch, seed)
    begun = (epoch * len(pool)) % count
    if not begun:
        return order
    held = {problem.id for problem in before[len(before) - begun :]}
    head = [problem for problem in order if problem.id not in held][: count - begun]
    taken = {problem.id for problem in head}
    return head + [problem for problem in order if problem.id not in taken]


def _shuffled(pool: Sequence[Problem], epoch: int, seed: int) -> list[Problem]:
    order = sorted(pool, key=lambda problem: problem.id)
    Random(derive_seed(seed, "cursor", epoch)).shuffle(order)
    return order
