"""`scheduling_policy`: the scheduling policies; each module of this folder declares one as `POLICY`."""

from __future__ import annotations

from records.declarations import declared
from records.errors import require_known
from trainer.scheduling.policy import SchedulingPolicy

ALL = declared(__name__, "POLICY", SchedulingPolicy)
"""Sorted by file name."""


def scheduling_policy(name: str) -> SchedulingPolicy:
    """Return the policy of that name; a ConfigError gives the nearest name when there is none.

    >>> scheduling_policy("sticky").make([1000, 1000]).on_finish("a", 0.0)
    []
    """
    require_known(name, [policy.name for policy in ALL], "scheduling policy")
    return next(policy for policy in ALL if policy.name == name)


__all__ = ["ALL", "scheduling_policy"]
