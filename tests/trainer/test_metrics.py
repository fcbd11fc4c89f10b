"""Metrics of one step, each on a case counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from trainer.metrics.alarms import alarms
from trainer.metrics.step_metrics import group_metrics, rollout_metrics


def a_turn(
    start: int,
    end: int,
    call: CallKind = CallKind.NONE,
    status: Status | None = None,
    code: str | None = None,
) -> Turn:
    result = None if status is None else ToolResult(id="c", status=status)
    return Turn(text="<answer>", start=start, end=end, call=call, result=result, code=code)


def a_rollout(*turns: Turn, reward: float | None = 1.0, stop: StopReason = StopReason.ANSWER) -> Trajectory:
    length = turns[-1].end if turns else 1
    mask = [any(turn.start <= i < turn.end for turn in turns) for i in range(length)]
    fields: dict[str, Any] = {"ids": [0] * length, "mask": mask, "logprob": [0.0] * length, "prompt_len": 1}
    return Trajectory(
        run="r", checkpoint="c", benchmark="rl1", problem="p", sample=0, turns=list(turns), reward=reward, stop=stop,
        **fields,
    )  # fmt: skip


RECOVERED = a_rollout(
    a_turn(1, 4, CallKind.EXECUTED, Status.ERROR, "a"),
    a_turn(6, 8, CallKind.EXECUTED, Status.OK, "b"),
    a_turn(9, 12),
)
LOOPED = a_rollout(
    a_turn(1, 3, CallKind.EXECUTED, Status.OK, "a"), a_turn(4, 6, CallKind.EXECUTED, Status.OK, "a"),
    a_turn(7, 9, CallKind.EXECUTED, code="a"), reward=0.0, stop=StopReason.MAX_TURNS,
)  # fmt: skip
CUT = a_rollout(a_turn(1, 11), reward=0.0, stop=StopReason.LENGTH)
LOST = a_rollout(a_turn(1, 2, CallKind.EXECUTED), reward=None, stop=StopReason.ABORTED)


def test_calls_are_failed_and_executed_ones() -> None:
    mistakes = a_rollout(a_turn(1, 2, CallKind.PARSE_ERROR), a_turn(3, 4, CallKind.UNKNOWN_TOOL))
    counts = [len(t.calls) for t in (mistakes, RECOVERED, LOOPED, CUT, LOST)]
    assert counts == [2, 2, 2, 0, 0]


def test_each_metric_of_a_small_batch_equals_a_hand_count() -> None:
    metrics = rollout_metrics([RECOVERED, LOOPED, CUT, LOST])
    expected = {
        "num_rollouts": 4, "num_aborted": 1, "num_sampled_tokens": 8 + 6 + 10 + 1, "num_tool_calls": 4,
        "num_tool_calls_run": 4, "num_tool_calls_lost": 1,
        "accuracy": 1 / 3, "reward_mean": 1 / 3, "response_len_mean": (11 + 8 + 10) / 3,
        "response_len_correct_mean": 11, "truncated_frac": 1 / 3, "context_stop_frac": 0,
        "max_turns_frac": 1 / 3, "turns_mean": 7 / 3, "tool_calls_mean": 4 / 3, "no_tool_frac": 1 / 3,
        "tool_error_frac": 0.25, "parse_error_frac": 0.0, "no_call_no_answer_frac": 0.0,
        "tool_error_frac_correct": 0.5, "num_tool_calls_correct": 2, "num_tool_errors_correct": 1,
        "first_call_success_frac": 0.5, "repeated_call_frac": 0.5,
        "several_answers_frac_correct": 1.0, "tokens_after_first_error_mean": 5, "recovery_frac": 1.0,
    }  # fmt: skip
    assert metrics == pytest.approx(expected)


def test_a_metric_without_a_case_is_absent_and_not_zero() -> None:
    metrics = rollout_metrics([LOST])
    assert not {"accuracy", "tool_error_frac", "response_len_correct_mean", "recovery_frac"} & set(metrics)
    assert rollout_metrics([])["num_rollouts"] == 0


def test_lost_and_unfit_rollouts_change_no_mean() -> None:
    played = [RECOVERED, LOOPED, CUT]
    unasked = a_rollout(reward=None, stop=StopReason.CONTEXT)
    lost_late = a_rollout(
        a_turn(1, 4, CallKind.PARSE_ERROR),
        a_turn(5, 9, CallKind.EXECUTED),
        reward=None,
        stop=StopReason.ABORTED,
    )
    counts = {
        "num_rollouts", "num_aborted", "num_sampled_tokens", "num_tool_calls",
        "num_tool_calls_lost",
    }  # fmt: skip
    alone, among = rollout_metrics(played), rollout_metrics([*played, *[LOST, lost_late, unasked] * 9])
    assert {name: value for name, value in among.items() if name not in counts} == {
        name: value for name, value in alone.items() if name not in counts
    }
    assert (among["num_tool_calls_lost"], among["num_aborted"]) == (18, 18)
    assert "no_tool_frac" not in rollout_metrics([LOST] * 8)
    lines = alarms(rollout_metrics([LOST] * 8) | {"no_reward_frac": 1.0})
    assert not [line for line in lines if "using the tool" in line]
    assert any("the sandbox lost more calls than it ran" in line for line in lines)


def test_a_call_at_the_turn_limit_counts_as_a_call() -> None:
    last = a_rollout(a_turn(1, 3, CallKind.EXECUTED, code="a"), reward=0.0, stop=StopReason.MAX_TURNS)
    assert rollout_metrics([last])["no_tool_frac"] == 0.0


def test_idle_turns_and_parse_errors_have_their_shares() -> None:
    def silent(start: int, end: int) -> Turn:
        return Turn(text="so it is</reason>", start=start, end=end, call=CallKind.NONE)

    idle = a_rollout(a_turn(1, 3, CallKind.EXECUTED, Status.OK, "a"), silent(4, 6), reward=0.0)
    cut = a_rollout(silent(1, 9), reward=0.0, stop=StopReason.LENGTH)
    metrics = rollout_metrics([idle, cut, RECOVERED])
    assert metrics["no_call_no_answer_frac"] == pytest.approx(1 / 5), (
        "the turn that the budget cut is counted elsewhere"
    )
    broken = a_rollout(
        a_turn(1, 2, CallKind.PARSE_ERROR), a_turn(3, 4, CallKind.UNKNOWN_TOOL), a_turn(5, 6), reward=0.0
    )
    metrics = rollout_metrics([broken, idle])
    assert metrics["parse_error_frac"] == pytest.approx(2 / 3)
    assert [line.split(" =")[0] for line in alarms(metrics)] == ["parse_error_frac"]


def test_groups_count_by_their_graded_rewards() -> None:
    right, wrong, lost = a_rollout(a_turn(1, 2)), a_rollout(a_turn(1, 2), reward=0.0), LOST
    metrics = group_metrics([[right, lost], [right, wrong], [wrong, wrong], [wrong, right], [lost, lost]])
    assert metrics == {"groups_all_right_frac": 0.25, "groups_all_wrong_frac": 0.25}
    assert group_metrics([[lost]]) == {}
