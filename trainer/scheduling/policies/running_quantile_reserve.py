"""The paper's queue with a smaller reserve: the need of 80% of the ended rollouts."""

from __future__ import annotations

from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policy import SchedulingPolicy

POLICY = SchedulingPolicy(
    name="running_quantile_reserve", make=lambda capacities: KvBudgetPolicy(capacities, quantile=0.8)
)
