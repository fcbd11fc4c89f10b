"""Baseline: rollouts assigned in advance, in a shuffled order."""

from __future__ import annotations

from trainer.scheduling.policy import SchedulingPolicy
from trainer.scheduling.static_split import StaticSplitPolicy

POLICY = SchedulingPolicy(
    name="static_shuffled", make=lambda capacities: StaticSplitPolicy(len(capacities), together=False)
)
