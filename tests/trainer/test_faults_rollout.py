"""Public faults of rollout loops (tests/BUGS.md), each as the behaviour that excludes it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from records.trajectory import CallKind, Rollout, StopReason
from tests.trainer.fakes import (
    ANSWER,
    END,
    CharCodec,
    ScriptedEngine,
    ScriptedTool,
    call_text,
    roll,
    sampled,
    script,
)
from trainer.rollout.chat import OPENING, TURN_END, ChatFormat, chat_template

TWO_TURNS = script(call_text(), ANSWER)


def sampled_ids(trajectory: Rollout) -> list[Sequence[int]]:
    return [trajectory.ids[turn.start : turn.end] for turn in trajectory.turns]


def test_b09_ids_stay_exactly_as_sampled_over_turns() -> None:
    """Every twin token survives, in the trajectory and in the next request."""
    engine = ScriptedEngine(TWO_TURNS)
    (trajectory,) = roll(engine)
    assert sampled_ids(trajectory) == [sampled(call_text()), sampled(ANSWER)]
    assert engine.requests[1].ids == trajectory.ids[: trajectory.turns[1].start]
    assert len(trajectory.ids) == len(trajectory.mask) == len(trajectory.logprob)


def test_b10_what_follows_a_turn_is_what_the_full_template_puts_there() -> None:
    """The newline after the end-of-turn token belongs to the suffix."""
    import jinja2

    chat = ChatFormat(system="brief", tool_name="run")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    template = jinja2.Template(chat_template(chat))
    before = template.render(messages=messages, add_generation_prompt=False).removesuffix("\n")
    tool = {"role": "tool", "content": "4"}
    after = template.render(messages=[*messages, tool], add_generation_prompt=True)
    assert before.endswith(TURN_END)
    assert after == before + chat.tool_response("4")


def test_b11_a_rollout_renders_no_template_so_history_cannot_be_rewritten() -> None:
    """Each request extends the previous one: prompt, sampled ids, suffix."""
    engine = ScriptedEngine(script(call_text(), call_text(), ANSWER))
    (trajectory,) = roll(engine)
    first, second, third = (request.ids for request in engine.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert trajectory.ids[: len(third)] == third


def test_b23_only_sampled_tokens_are_marked_as_generated() -> None:
    (trajectory,) = roll(ScriptedEngine(TWO_TURNS))
    marked = [i for i, on in enumerate(trajectory.mask) if on]
    assert marked == [i for turn in trajectory.turns for i in range(turn.start, turn.end)]
    assert all(
        (logprob != 0.0) == on for logprob, on in zip(trajectory.logprob, trajectory.mask, strict=True)
    )
    between = CharCodec().decode(trajectory.ids[trajectory.turns[0].end : trajectory.turns[1].start])
    assert between.startswith("\n<|im_start|>user\n<tool_response>\n4\n</tool_response>")
    assert between.endswith(OPENING)


def test_b25_the_stop_token_is_kept_marked_and_scored() -> None:
    (trajectory,) = roll(ScriptedEngine(TWO_TURNS))
    for turn in trajectory.turns:
        assert trajectory.ids[turn.end - 1] == END
        assert trajectory.mask[turn.end - 1]
        assert trajectory.logprob[turn.end - 1] < 0


def test_b28_a_tool_response_that_does_not_fit_ends_the_rollout_by_name() -> None:
    """No request beyond the budget, and no token of the response."""
    budget = len(sampled(call_text())) + 40
    engine = ScriptedEngine(TWO_TURNS)
    (trajectory,) = roll(engine, max_response=budget)
    assert trajectory.stop is StopReason.CONTEXT
    assert len(engine.requests) == 1
    assert trajectory.response_len == len(sampled(call_text()))


@pytest.mark.parametrize("budget", range(1, 400, 7))
def test_b28_no_request_and_no_trajectory_ever_exceeds_the_budget(budget: int) -> None:
    engine = ScriptedEngine(script(call_text(), call_text("2"), ANSWER))
    (trajectory,) = roll(engine, max_response=budget)
    assert trajectory.response_len <= budget
    for request in engine.requests:
        assert len(request.ids) - trajectory.prompt_len + request.max_new == budget
        assert request.max_new >= 1


def test_b28_a_cut_answer_is_a_length_stop_and_a_cut_call_is_no_parse_error() -> None:
    (trajectory,) = roll(ScriptedEngine(TWO_TURNS), max_response=30)
    assert trajectory.stop is StopReason.LENGTH
    assert [turn.call for turn in trajectory.turns] == [CallKind.NONE]


def test_b30_every_turn_of_every_sample_has_its_own_seed() -> None:
    engine = ScriptedEngine(TWO_TURNS)
    roll(engine, num_samples=16)
    seeds = [request.seed for request in engine.requests]
    assert len(seeds) == 32
    assert len(set(seeds)) == 32
    again = ScriptedEngine(TWO_TURNS)
    roll(again, num_samples=16)
    assert sorted(seeds) == sorted(request.seed for request in again.requests)


def test_b41_waiting_for_a_tool_outlasts_the_tools_own_limit() -> None:
    """The sandbox ends a call of 20 s by itself, long before the loop counts it as lost."""
    tool = ScriptedTool(after_s=20.0 + 30.0)
    (rollout,) = roll(ScriptedEngine(TWO_TURNS), tool)
    assert [call.limits.wall_s for call in tool.calls] == [20.0]
    assert rollout.stop is StopReason.ANSWER


def test_the_call_of_the_last_allowed_turn_is_not_run() -> None:
    tool = ScriptedTool()
    (trajectory,) = roll(ScriptedEngine(script(*[call_text()] * 3)), tool, max_turns=2)
    assert trajectory.stop is StopReason.MAX_TURNS
    assert len(tool.calls) == 1
    assert [turn.result is None for turn in trajectory.turns] == [False, True]


def test_further_calls_of_one_turn_get_a_message_and_do_not_run() -> None:
    tool = ScriptedTool()
    two_calls = call_text().removesuffix(TURN_END) + call_text().removeprefix("x</reason>")
    (trajectory,) = roll(ScriptedEngine(script(two_calls, ANSWER)), tool)
    assert len(tool.calls) == 1
    assert trajectory.turns[0].num_extra_calls == 1
    shown = CharCodec().decode(trajectory.ids[trajectory.turns[0].end : trajectory.turns[1].start])
    assert "Only the first tool call of a turn is run." in shown
