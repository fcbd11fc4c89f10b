"""The paper's admission (section 3.2): a rollout starts where prompt + longest response fit."""

from __future__ import annotations

from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policy import SchedulingPolicy

POLICY = SchedulingPolicy(name="worst_case_reserve", make=lambda capacities: KvBudgetPolicy(capacities))
