"""Metrics and rollout texts that a step leaves in the files of a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.objective import RocSelection
from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, SelectionReason, StopReason, Trajectory, Turn
from tests.trainer.fakes import ANSWER, CharCodec, call_text
from tests.trainer.stages import FakeSampler, FakeTrainer, a_rollout, real_stage, scripted_stage
from trainer.metrics.alarms import alarms
from trainer.metrics.rollout_text import MOST_TOKENS, chosen, rollout_text
from trainer.rollout.chat import OPENING, TURN_END

ON_THE_CLOCK = {
    "sampled_tokens_per_s", "trained_tokens_per_s", "engine_busy_frac", "tool_queue_wait_s", "tool_wait_s", "rollout_s",
    "grade_s", "update_s", "sync_s", "save_s", "step_s", "num_near_limit_calls",
}  # fmt: skip


def a_group() -> list[Trajectory]:
    """Right and wrong rollouts of one problem that call the tool twice with the same code, once in vain."""

    def call(status: Status) -> Turn:
        result = ToolResult(id="c", status=status)
        return Turn(text="", start=1, end=2, call=CallKind.EXECUTED, code="1", result=result)

    group = [a_rollout("p", i, "4" if i % 2 else "5") for i in range(8)]
    first = [call(Status.OK if i % 4 else Status.ERROR) for i in range(8)]
    return [
        replace(one, turns=[call_1, call(Status.OK), *one.turns])
        for one, call_1 in zip(group, first, strict=True)
    ]


def test_the_table_of_the_guide_names_every_metric_of_a_step_and_no_other(
    tiny_checkpoint: Path, project_root: Path
) -> None:
    guide = (project_root / "docs" / "guide.md").read_text(encoding="utf-8")
    table = guide.split("| metric of a step |")[1].split("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    outcome = real_stage(tiny_checkpoint).step(1)
    group = a_group()
    with_calls = scripted_stage(group, FakeTrainer(), FakeSampler(group)).step(1)
    assert named == {*outcome.journal_row, *with_calls.journal_row}
    assert set(outcome.clock.to_json()) >= ON_THE_CLOCK
    assert 0 < outcome.clock.engine_busy_frac <= 1
    line = json.dumps(outcome.journal_row, allow_nan=False)
    assert json.loads(line)["step"] == 1


def test_the_metrics_of_rollouts_with_calls_hold_the_rest() -> None:
    group = a_group()
    metrics = scripted_stage(group, FakeTrainer(), FakeSampler(group)).step(1).metrics
    assert metrics["tool_error_frac"] == pytest.approx(2 / 16)
    assert metrics["tool_error_frac_correct"] == 0.0
    assert metrics["first_call_success_frac"] == pytest.approx(6 / 8)
    assert metrics["repeated_call_frac"] == 1.0
    assert metrics["p_total_pos_before"] == 0.0


@pytest.mark.parametrize("rule", list(RocSelection))
def test_every_rollout_of_a_step_is_counted_under_one_reason(rule: RocSelection) -> None:
    group = a_group()
    sampler = FakeSampler(group)
    sampler.codec = CharCodec()
    stage = scripted_stage(group, FakeTrainer(), sampler)
    roc = stage.objective.roc.model_copy(update={"selection": rule, "oversample": 1 if rule == "none" else 2})
    size = 8 if rule == "none" else 4
    stage.objective = stage.objective.model_copy(update={"roc": roc, "group_size": size})
    outcome = stage.step(1)
    metrics = outcome.metrics
    dropped = {f"num_{t.reason}" for t in outcome.trajectories if not t.kept}
    assert metrics["num_kept"] + sum(metrics[name] for name in dropped) == 8
    assert metrics["num_kept"] == (8 if rule == "none" else 4)


def test_the_release_rule_computes_penalties_from_the_text() -> None:
    """A clean call that prints the word, and a timeout without it: the release scores the timeout better."""
    codec = CharCodec()

    def a_text_rollout(sample: int, answer: str, response: str, status: Status) -> Trajectory:
        call = f"x{TURN_END}"
        shown = f"\n<|im_start|>user\n<tool_response>{response}</tool_response>{TURN_END}\n{OPENING}"
        last = f"</reason><answer>\\boxed{{{answer}}}</answer>{TURN_END}"
        ids = [ord("q"), *codec.encode(call + shown + last)]
        turns = [
            Turn(
                text=call,
                start=1,
                end=3,
                call=CallKind.EXECUTED,
                code="1",
                result=ToolResult(id="c", status=status),
            ),
            Turn(text=last, start=3, end=len(ids), call=CallKind.NONE),
        ]
        changes: dict[str, Any] = {"ids": ids, "mask": [False, *[True] * (len(ids) - 1)], "turns": turns}
        return a_rollout("p", sample, answer, logprob=[-1.0] * len(ids), **changes)

    group = [a_text_rollout(i, "4", "error = 1e-9", Status.OK) for i in range(3)]
    group += [a_text_rollout(i, "4", "worker_timeout", Status.TIMEOUT) for i in range(3, 6)]
    group += [a_text_rollout(i, "5", "6", Status.OK) for i in range(6, 8)]
    kept = {}
    for rule in (RocSelection.RELEASE, RocSelection.PAPER):
        sampler = FakeSampler(group)
        sampler.codec = codec
        stage = scripted_stage(group, FakeTrainer(), sampler)
        roc = stage.objective.roc.model_copy(update={"selection": rule, "epsilon": 1e-9})
        stage.objective = stage.objective.model_copy(update={"roc": roc})
        kept[rule] = {t.sample for t in stage.step(1).trajectories if t.kept and t.reward}
    assert kept[RocSelection.RELEASE] <= {3, 4, 5}
    assert kept[RocSelection.PAPER] <= {0, 1, 2}


def test_many_lost_rollouts_and_a_runaway_loop_are_reported() -> None:
    assert any("lost so many rollouts" in line for line in alarms({"no_reward_frac": 0.2}))
    assert any("turn limit" in line for line in alarms({"max_turns_frac": 0.6}))
    assert alarms({"no_reward_frac": 0.1, "max_turns_frac": 0.5}) == []


# --- rollouts as text ------------------------------------------------------------------------------------


def a_conversation() -> Trajectory:
    codec = CharCodec()
    prompt, turn = f"What?{TURN_END}", call_text()
    shown, last = f"<tool_response>1</tool_response>{TURN_END}", ANSWER
    pieces = [(prompt, False), (turn, True), (shown, False), (last, True)]
    ids = [i for text, _ in pieces for i in codec.encode(text)]
    mask = [on for text, on in pieces for _ in codec.encode(text)]
    return Trajectory(
        run="r", checkpoint="c", benchmark="rl1", problem="p", sample=1, step=3, ids=ids, mask=mask,
        logprob=[-0.25 if on else 0.0 for on in mask], prompt_len=len(codec.encode(prompt)), reward=1.0,
        selection=SelectionReason.KEPT, stop=StopReason.ANSWER,
    )  # fmt: skip


def test_a_rollout_as_text_marks_sampled_tokens_and_lists_the_loss() -> None:
    trajectory = a_conversation()
    text = rollout_text(trajectory, CharCodec())
    assert f"What?{TURN_END}\u00abx</reason><tool_call>" in text
    assert f"\u00bb<tool_response>1</tool_response>{TURN_END}\u00abso</reason>" in text
    lines = text.splitlines()
    tokens = lines[lines.index("--- token  loss  log-prob  id  text") + 1 :]
    listed = [line.split() for line in tokens if line.strip()]
    assert [line[1] == "loss" for line in listed] == trajectory.mask
    assert [int(line[0]) for line in listed] == list(range(len(trajectory.ids)))
    assert all(line[2] == "-0.2500" for line in listed if line[1] == "loss")
    dropped = rollout_text(replace(trajectory, selection=SelectionReason.NOT_DRAWN), CharCodec())
    assert "loss  " not in dropped
    assert "  sampled  " in dropped


def test_a_long_rollout_lists_its_first_tokens_and_counts_the_others() -> None:
    length = MOST_TOKENS + 7
    long = replace(
        a_conversation(), ids=[65] * length, mask=[False] + [True] * (length - 1), logprob=[-1.0] * length
    )
    text = rollout_text(long, CharCodec())
    assert "... 7 more tokens" in text
    assert "A" * (length - 1) in text


def test_one_trained_and_one_dropped_rollout_are_shown() -> None:
    group = [
        replace(
            a_conversation(),
            sample=i,
            selection=SelectionReason.KEPT if i in (2, 4) else SelectionReason.NOT_DRAWN,
        )
        for i in range(6)
    ]
    assert [t.sample for t in chosen(group[::-1])] == [2, 0]
    assert chosen([]) == []
