"""Alarms: one line for each failure above its limit, none at the limit."""

from __future__ import annotations

import pytest

from trainer.metrics.alarms import alarms

SHAPES = {
    "truncated_frac": (0.5, "raise max_response"),
    "no_tool_frac": (0.95, "stopped using the tool"),
    "parse_error_frac": (0.5, "not calls of the tool"),
    "no_call_no_answer_frac": (0.5, "neither a call nor an answer"),
    "repeated_call_frac": (0.5, "running away"),
    "groups_all_wrong_frac": (0.95, "nothing to learn from"),
    "groups_all_right_frac": (0.95, "nothing left to learn"),
    "mismatch_abs_mean": (0.05, "engine and trainer disagree"),
    "mismatch_abs_max": (5.0, "engine and trainer disagree"),
    "grad_norm": (10.0, "lower the learning rate"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_reported_above_its_limit_and_not_at_it(name: str) -> None:
    limit, words = SHAPES[name]
    (line,) = alarms({name: limit + 0.01})
    assert line.startswith(f"{name} = {limit + 0.01:.2f}: ")
    assert words in line
    assert alarms({name: limit}) == []


def test_a_step_that_keeps_nothing_is_reported() -> None:
    assert alarms({"num_kept": 0}) == [
        "num_kept = 0: no group has spread, the weights do not change in this step"
    ]
    assert alarms({"num_kept": 1}) == []


def test_both_ends_of_the_budget_count_together() -> None:
    (line,) = alarms({"truncated_frac": 0.3, "context_stop_frac": 0.3})
    assert line.startswith("truncated_frac + context_stop_frac = 0.60: ")
    (line,) = alarms({"truncated_frac": 0.6, "context_stop_frac": 0.3})
    assert line.startswith("truncated_frac = 0.60: ")
    assert alarms({"truncated_frac": 0.3, "context_stop_frac": 0.2}) == []


def test_a_missing_metric_raises_no_alarm() -> None:
    assert alarms({}) == []
