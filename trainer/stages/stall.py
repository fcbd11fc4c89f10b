"""`StallWatch`: ends a stage that trains nothing: a tool that is down, budgets that no rollout meets, no spread at all.

Without it such a stage would go through all steps, publish its parent's weights and exit with 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from records.errors import UserError
from records.trajectory import SelectionReason

LOST_STEPS = 3
"""Steps in a row that the infrastructure, the reward or the budget emptied; no reason of the policy explains three."""
EQUAL_STEPS = 10
"""Steps in a row whose groups all had equal rewards: a policy may go through some such steps and learn later."""


class StageStalled(UserError):
    """The stage trains nothing; the message names the cause and the number of steps."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Why a step trained nothing, or nothing of what it should."""

    cause: str
    is_fault: bool
    """True when something is broken or set wrongly; False when the rewards have no spread."""


@dataclass(slots=True)
class StallWatch:
    """Counts steps in a row; `see` each one."""

    steps: int
    """Of the whole stage: one shorter than the patience ends too when none of its steps trained."""
    num_fault: int = 0
    num_equal: int = 0

    def see(self, metrics: Mapping[str, float]) -> str | None:
        """Take in a step's metrics. Returns why the stage must end, in one line; None while it may go on."""
        stall = stall_of(metrics)
        self.num_fault = self.num_fault + 1 if stall is not None and stall.is_fault else 0
        self.num_equal = self.num_equal + 1 if stall is not None and not stall.is_fault else 0
        if stall is None:
            return None
        if self.num_fault < min(LOST_STEPS, self.steps) and self.num_equal < EQUAL_STEPS:
            return None
        count = max(self.num_fault, self.num_equal)
        return (
            f"{stall.cause}; so it was in {count} step{'s' * (count > 1)} in a row, the stage ends and publishes "
            "nothing; run again when that is repaired: it goes on from the last saved state"
        )

    @property
    def is_sound(self) -> bool:
        """Whether the last step is worth a saved state: one in which something broke is better done again."""
        return self.num_fault == 0


def stall_of(metrics: Mapping[str, float]) -> Stall | None:
    """Why a step trained nothing of what it should; None where it trained.

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
    SelectionReason.GROUP_TOO_SMALL: ("stand in groups that are too small", True),
    SelectionReason.EQUAL_REWARD: (
        "stand in groups of equal rewards: the problems are too easy or too hard",
        False,
    ),
    SelectionReason.EQUAL_AFTER_SELECTION: ("stand in groups of equal rewards after the selection", False),
}
"""Reason of most rollouts -> words, and whether something is at fault."""
