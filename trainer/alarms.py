"""Known shapes of failure, said aloud while a run goes on (public faults B29, B40). They stop nothing."""

from __future__ import annotations

from collections.abc import Mapping

_SHAPES: tuple[tuple[str, float, str], ...] = (
    ("truncated_frac", 0.5, "more than half of the rollouts hit the length limit: raise max_response"),
    ("no_tool_frac", 0.95, "the model has stopped using the tool"),
    ("repeated_call_frac", 0.5, "most rollouts run the same code twice: the tool loop may be running away"),
    (
        "max_turns_frac",
        0.5,
        "more than half of the rollouts end at the turn limit: the tool loop may be running away",
    ),
    (
        "no_reward_frac",
        0.1,
        "our side lost or could not grade so many rollouts: see the sandbox and the reward",
    ),
    (
        "groups_all_wrong_frac",
        0.95,
        "nearly every problem is failed in every rollout: there is nothing to learn from",
    ),
    (
        "groups_all_right_frac",
        0.95,
        "nearly every problem is solved in every rollout: there is nothing left to learn",
    ),
)


def alarms(metrics: Mapping[str, float]) -> list[str]:
    """One line per shape that the step's metrics show.

    >>> alarms({"truncated_frac": 0.9})
    ['truncated_frac = 0.90: more than half of the rollouts hit the length limit: raise max_response']
    """
    lines = [
        f"{name} = {metrics[name]:.2f}: {meaning}"
        for name, limit, meaning in _SHAPES
        if metrics.get(name, 0.0) > limit
    ]
    if metrics.get("num_kept", 1) == 0:
        lines.append("num_kept = 0: no group has spread, the weights stay as they are in this step")
    return lines
