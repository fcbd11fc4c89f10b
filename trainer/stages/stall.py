"""`StallWatch`: ends a stage that trains nothing, because of a broken tool, too small budgets or missing spread.

Otherwise such a stage would run all steps, publish its parent's weights and exit with status 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from records.errors import UserError
from records.trajectory import SelectionReason

LOST_STEPS = 3
"""Consecutive steps emptied by infrastructure, reward or budget; no property of the policy explains three."""
EQUAL_STEPS = 10
"""Consecutive steps whose groups all had equal rewards: a policy may pass through some of these and learn later."""


class StageStalled(UserError):
    """The stage trains nothing; the message names the cause and the number of steps."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Cause of a step that trained nothing, or not what it should."""

    cause: str
    is_fault: bool
    """True for a fault or a wrong setting; False if the rewards have no spread."""


@dataclass(slots=True)
class StallWatch:
    """Counts consecutive steps; call `see` after each one."""

    steps: int
    """Steps of the whole stage; a stage shorter than the patience ends too if none of its steps trained."""
    num_fault: int = 0
    num_equal: int = 0

    def see(self, metrics: Mapping[str, float]) -> str | None:
        """Process a step's metrics. Returns the reason to end the stage, in one line; None to continue."""
        stall = stall_of(metrics)
        self.num_fault = self.num_fault + 1 if stall is not None and stall.is_fault else 0
        self.num_equal = self.num_equal + 1 if stall is not None and not stall.is_fault else 0
        if stall is None:
            return None
        if self.num_fault < min(LOST_STEPS, self.steps) and self.num_equal < EQUAL_STEPS:
            return None
        count = max(self.num_fault, self.num_equal)
        return (
            f"{stall.cause}; after {count} such step{'s' * (count > 1)} in a row the stage ends and publishes "
            "nothing; run again after the repair: the stage resumes from the last saved state"
        )

    @property
    def is_sound(self) -> bool:
        """Whether to save the state of the last step; a step in which something broke is repeated instead."""
        return self.num_fault == 0


def stall_of(metrics: Mapping[str, float]) -> Stall | None:
    """Why a step did not train as it should; None if it did.

    >>> stall_of({"num_rollouts": 8, "num_aborted": 8, "num_kept": 0}).cause
    'every rollout was lost by the engine or the sandbox (8 of 8)'
    >>> stall_of({"num_rollouts": 8, "num_kept": 4}) is None
    True
    """
    rollouts, lost = metrics.get("num_rollouts", 0), metrics.get("num_aborted", 0)
    if rollouts and lost == rollouts:
        return Stall(
            f"every rollout was lost by the engine or the sandbox ({lost} of {rollouts})", is_fault=True
        )
    calls_lost = metrics.get("num_tool_calls_lost", 0)
    if calls_lost and not metrics.get("num_tool_calls_run", 0):
        return Stall(
            f"every tool call was lost ({calls_lost} of {calls_lost}): the sandbox or the tool is down",
            is_fault=True,
        )
    if metrics.get("num_kept", 1):
        return None
    counts = {
        reason: metrics.get(f"num_{reason.value}", 0) for reason in SelectionReason if not reason.is_kept
    }
    reason = max(counts, key=lambda found: counts[found])
    what, is_fault = _CAUSES.get(reason, (reason.value, True))
    return Stall(f"no rollout was trained: {counts[reason]} of {rollouts} {what}", is_fault)


_CAUSES = {
    SelectionReason.NO_REWARD: ("have no reward: lost, or not graded by the reward function", True),
    SelectionReason.OVERLONG: (
        "ended at the response budget and are filtered (objective.overlong): raise max_response",
        True,
    ),
    SelectionReason.GROUP_TOO_SMALL: ("belong to groups that are too small", True),
    SelectionReason.EQUAL_REWARD: (
        "belong to groups of equal rewards: the problems are too easy or too hard",
        False,
    ),
    SelectionReason.EQUAL_AFTER_SELECTION: ("belong to groups of equal rewards after the selection", False),
}
"""Reason of most rollouts -> description, and whether it is a fault."""
