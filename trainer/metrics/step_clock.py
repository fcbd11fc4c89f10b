"""`StepClock`: wall seconds of the phases of an RL step, measured by `Laps`.

Seconds and metrics are separate files: the metrics files of two equal runs are then equal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Literal, Self

from trainer.rollout.episode import RolloutClock

Phase = Literal["rollout", "grade", "update", "sync"]


@dataclass(slots=True)
class Laps:
    """Wall seconds of each phase of the current step."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[Phase, float] = field(default_factory=dict)

    @contextmanager
    def lap(self, phase: Phase) -> Iterator[None]:
        """Time the body as `phase`."""
        began = time.monotonic()
        yield
        self.seconds[phase] = time.monotonic() - began

    @property
    def total(self) -> float:
        return time.monotonic() - self.began


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClock:
    """Wall seconds of one step by phase."""

    step: int
    stage: str
    rollout_s: float
    """Engines and tools together."""
    engine_s: float
    engine_busy_frac: float
    """Share of the rollout phase in which the engine computed."""
    tool_wait_s: float
    """Seconds in which all rollouts waited for a tool."""
    tool_cpu_s: float
    tool_queue_wait_s: float
    """Mean wait for a place in the sandbox over all calls, including those that never ran."""
    num_near_limit_calls: int
    """Calls that used a quarter of a time limit or more: their result may depend on the clock."""
    grade_s: float
    """Seconds after the last rollout; grading starts when a rollout ends."""
    update_s: float
    sync_s: float
    save_s: float
    """Time to save the state after the previous step; this step's state is saved after its lines are written."""
    step_s: float
    sampled_tokens_per_s: float
    trained_tokens_per_s: float

    @classmethod
    def of(
        cls,
        step: int,
        stage: str,
        laps: Laps,
        rollouts: Sequence[RolloutClock],
        metrics: Mapping[str, float],
        *,
        engine_s: float,
        tool_wait_s: float,
    ) -> Self:
        """The clock of a finished step; `metrics` holds its numbers of calls and tokens."""
        rollout_s, update_s = laps.seconds["rollout"], laps.seconds["update"]
        return cls(
            step=step,
            stage=stage,
            rollout_s=rollout_s,
            engine_s=engine_s,
            engine_busy_frac=engine_s / max(rollout_s, 1e-9),
            tool_wait_s=tool_wait_s,
            tool_cpu_s=sum(clock.cpu_s for clock in rollouts),
            tool_queue_wait_s=sum(clock.queue_s for clock in rollouts) / max(metrics["num_tool_calls"], 1),
            num_near_limit_calls=sum(clock.num_near_limit for clock in rollouts),
            grade_s=laps.seconds["grade"],
            update_s=update_s,
            sync_s=laps.seconds["sync"],
            save_s=0.0,
            step_s=laps.total,
            sampled_tokens_per_s=metrics["num_sampled_tokens"] / max(rollout_s, 1e-9),
            trained_tokens_per_s=metrics["num_trained_tokens"] / max(update_s, 1e-9),
        )

    def to_json(self) -> dict[str, float | int | str]:
        return asdict(self)
