"""`alarms`: warnings about known failures, printed during a run (public faults B21, B29, B40).

A warning does not stop the run.
"""

from __future__ import annotations

from collections.abc import Mapping

BUDGET_LIMIT = 0.5
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
        "the sandbox, the engine or the reward lost so many rollouts: see their logs",
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
    (
        "parse_error_frac",
        0.5,
        "most tool calls are not calls of the tool: see rollout.tool.name, the prompt and the stop token",
    ),
    (
        "no_call_no_answer_frac",
        0.5,
        "most turns end with neither a call nor an answer: the format is lost",
    ),
    (
        "mismatch_abs_mean",
        0.05,
        "engine and trainer disagree on log-probs, in nats per token: see the weights and the dtype of the engine",
    ),
    (
        "mismatch_abs_max",
        5.0,
        "engine and trainer disagree on the log-prob of a token, in nats: see the weights of the engine",
    ),
    (
        "grad_norm",
        10.0,
        "the gradient is far above normal: lower the learning rate, or look at the rewards",
    ),
)


def alarms(metrics: Mapping[str, float]) -> list[str]:
    """Return one line per failure that the step's metrics show.

    >>> alarms({"truncated_frac": 0.9})
    ['truncated_frac = 0.90: more than half of the rollouts hit the length limit: raise max_response']
    """
    lines = [
        f"{name} = {metrics[name]:.2f}: {meaning}"
        for name, limit, meaning in _SHAPES
        if metrics.get(name, 0.0) > limit
    ]
    cut, full = metrics.get("truncated_frac", 0.0), metrics.get("context_stop_frac", 0.0)
    if cut <= BUDGET_LIMIT < cut + full:
        lines.append(
            f"truncated_frac + context_stop_frac = {cut + full:.2f}: more than half of the rollouts end at the "
            "response budget, in a turn or before a tool response: raise max_response"
        )
    lost, run = metrics.get("num_tool_calls_lost", 0), metrics.get("num_tool_calls_run", 0)
    if lost > run:
        lines.append(f"num_tool_calls_lost = {lost:.0f}: the sandbox lost more calls than it ran ({run:.0f})")
    if metrics.get("num_kept", 1) == 0:
        lines.append("num_kept = 0: no group has spread, the weights do not change in this step")
    return lines
