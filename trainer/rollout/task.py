"""`Task`, one rollout to make, and `RolloutSettings`, the common settings of a batch of rollouts."""

from __future__ import annotations

from dataclasses import dataclass

from records.problem import Problem
from records.tool_call import Limits
from records.trajectory import IdsSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One rollout to make."""

    problem: Problem
    sample: int
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """Common settings of all rollouts of one batch."""

    run: str
    checkpoint: str
    benchmark: str
    control: str = "none"
    max_prompt: int
    max_response: int
    max_turns: int
    temperature: float
    top_p: float
    seed: int
    policy_version: int
    limits: Limits
    rejoin_iterations: int | None
    """None: a rollout rejoins as soon as the tool answers (not repeatable)."""
    num_retries: int = 2
    """Retries of a call that the infrastructure lost."""
    ids_source: IdsSource = IdsSource.SAMPLED
