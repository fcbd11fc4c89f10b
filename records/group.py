"""`Group`: the rollouts of one problem in one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from records.problem import Problem
from records.trajectory import Rollout

R = TypeVar("R", bound=Rollout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Generic[R]):
    """One problem with its rollouts, in order of their number."""

    problem: Problem
    rollouts: tuple[R, ...]


def grouped(problems: Iterable[Problem], rollouts: Sequence[R]) -> list[Group[R]]:
    """Return one group per problem, in order of the ids; a problem without a rollout has an empty group.

    >>> rollouts = [Rollout(run="", checkpoint="", benchmark="", problem="b", sample=i) for i in (1, 0)]
    >>> groups = grouped([Problem(id=name, prompt="", answer="") for name in "ba"], rollouts)
    >>> [(group.problem.id, [rollout.sample for rollout in group.rollouts]) for group in groups]
    [('a', []), ('b', [0, 1])]
    """
    members: dict[str, list[R]] = {}
    for rollout in sorted(rollouts, key=lambda rollout: rollout.key):
        members.setdefault(rollout.problem, []).append(rollout)
    ordered = sorted(problems, key=lambda problem: problem.id)
    return [Group(problem=problem, rollouts=tuple(members.get(problem.id, ()))) for problem in ordered]
