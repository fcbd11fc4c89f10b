"""`endpoints` and `curve`: predefined endpoints of an experiment arm, and its curve on four axes of cost.

All endpoints except `accuracy` use raw rollouts before selection, so that RoC cannot improve them by picking. Levels
cover the last third of the steps (rounded up); shares are pooled over their cases where the counts are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Any

from records.arm_record import CurvePoint

AXES = ("step", "rollouts", "sampled_tokens", "seconds")
"""Units of cost of a curve; all except the step are cumulative."""
MEANS = (
    "first_call_success_frac",
    "response_len_mean",
    "response_len_correct_mean",
    "tokens_after_first_error_mean",
    "recovery_frac",
    "several_answers_frac_correct",
    "no_tool_frac",
    "truncated_frac",
    "groups_all_right_frac",
    "entropy_mean",
    "clip_high_frac",
    "clip_low_frac",
)
CURVES = ("accuracy", "tool_error_frac_correct", "response_len_correct_mean")


def endpoints(metrics: Sequence[Mapping[str, Any]], test_accuracy: float) -> dict[str, float]:
    """Return the endpoints of one arm; a quantity without a case is left out.

    Args:
        metrics: lines of the stages' metrics, in order of steps.
        test_accuracy: avg@1 on the sealed test rings.

    >>> lines = [{"step": s, "accuracy": 0.1 * s, "num_tool_calls_correct": 10, "num_tool_errors_correct": 6 - s,
    ...           "tool_error_frac_correct": (6 - s) / 10} for s in (1, 2, 3, 4, 5, 6)]
    >>> found = endpoints(lines, 0.5)
    >>> found["accuracy"], round(found["train_accuracy"], 3), found["tool_error_frac_correct"]
    (0.5, 0.55, 0.05)
    >>> round(found["tool_error_frac_correct_slope"], 6)
    -0.1
    """
    late = last_third(metrics)
    found = {"accuracy": test_accuracy}
    found |= _mean("train_accuracy", late, "accuracy")
    calls = sum(line.get("num_tool_calls_correct", 0) for line in late)
    if calls:
        errors = sum(line["num_tool_errors_correct"] for line in late)
        found["tool_error_frac_correct"] = errors / calls
    slope = slope_of([(line["step"], line.get("tool_error_frac_correct")) for line in late])
    if slope is not None:
        found["tool_error_frac_correct_slope"] = slope
    for name in MEANS:
        found |= _mean(name, late, name)
    return found


def last_third(lines: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the last third, rounded up.

    >>> [line["step"] for line in last_third([{"step": s} for s in range(7)])]
    [4, 5, 6]
    """
    return lines[len(lines) - -(-len(lines) // 3) :]


def slope_of(points: Sequence[tuple[float, float | None]]) -> float | None:
    """Return the least-squares slope over the points that have a value; None for fewer than two.

    >>> slope_of([(0, 1.0), (1, None), (2, 5.0)]), slope_of([(0, 1.0)])
    (2.0, None)
    """
    known = [(x, y) for x, y in points if y is not None]
    if len(known) < 2:
        return None
    return linear_regression([x for x, _ in known], [y for _, y in known]).slope


def curve(metrics: Sequence[Mapping[str, Any]], timing: Sequence[Mapping[str, Any]]) -> list[CurvePoint]:
    """Return one point per step: cost so far in four units, and what was reached.

    Seconds are those of rollout and update on the machine of the run; grading, loading weights into the engine, saving
    and starting are left out.

    >>> points = curve([{"step": 1, "num_rollouts": 8, "num_sampled_tokens": 90, "accuracy": 0.5}] * 2,
    ...                [{"step": 1, "rollout_s": 1.0, "update_s": 0.5}] * 2)
    >>> points[1].rollouts, points[1].sampled_tokens, points[1].seconds, points[1].accuracy
    (16, 180, 3.0, 0.5)
    """
    points = []
    rollouts = tokens = 0
    seconds = 0.0
    for line, clock in zip(metrics, timing, strict=True):
        rollouts += line["num_rollouts"]
        tokens += line["num_sampled_tokens"]
        seconds += clock["rollout_s"] + clock["update_s"]
        reached = {name: line.get(name) for name in CURVES}
        points.append(
            CurvePoint(
                step=line["step"], rollouts=rollouts, sampled_tokens=tokens, seconds=seconds, **reached
            )
        )
    return points


def _mean(name: str, lines: Sequence[Mapping[str, Any]], source: str) -> dict[str, float]:
    values = [line[source] for line in lines if line.get(source) is not None]
    return {name: sum(values) / len(values)} if values else {}
