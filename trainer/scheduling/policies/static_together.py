"""Baseline: rollouts assigned in advance, with the siblings of a group on one engine."""

from __future__ import annotations

from trainer.scheduling.policy import SchedulingPolicy
from trainer.scheduling.static_split import StaticSplitPolicy

POLICY = SchedulingPolicy(
    name="static_together", make=lambda capacities: StaticSplitPolicy(len(capacities), together=True)
)
