"""A step on bad input: no NaN, no crash without a message, no silent drop; each case is counted."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from records.errors import ConfigError
from records.manifest import verify
from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from tests.trainer.gradient_run import CPU, rows
from tests.trainer.stages import FakeSampler, FakeTrainer, a_rollout, objective, scripted_stage
from tests.trainer.tiny_checkpoint import make_checkpoint
from trainer.jobs.work_folder import WorkDir
from trainer.rollout.chat import ChatFormat
from trainer.selection.advantage import group_advantages
from trainer.selection.user_reward import UserReward
from trainer.stages.base_checkpoint import _copy_pretrained
from trainer.stages.rl import StepOutcome
from trainer.update.grpo import GrpoTrainer, UpdateBatch

EXAMPLES = "tests.trainer.example_rewards"


def step_on(
    group: list[Trajectory], own: str | None = None, limit_s: float = 30.0
) -> tuple[StepOutcome, int]:
    """One step; returns the outcome and the number of trained rows."""
    trainer, reward = FakeTrainer(), None
    if own is not None:
        reward = UserReward(f"{EXAMPLES}:{own}", limit_s)
    try:
        outcome = scripted_stage(group, trainer, FakeSampler(group), reward=reward).step(1)
    finally:
        if reward is not None:
            reward.close()
    json.dumps(outcome.metrics, allow_nan=False)
    assert outcome.metrics["num_rollouts"] == len(group)
    assert outcome.metrics["num_kept"] == sum(bool(t.kept) for t in outcome.trajectories)
    reasons = Counter(trajectory.reason for trajectory in outcome.trajectories)
    assert reasons.total() == len(group)
    assert "" not in reasons
    return outcome, sum(len(batch.rows) for batch in trainer.batches)


def tool_text_only(sample: int) -> Trajectory:
    """The policy sampled nothing: the response is a tool response alone."""
    result = ToolResult(id="c", status=Status.OK, stdout="4")
    turn = Turn(text="", start=1, end=1, call=CallKind.EXECUTED, code="", result=result)
    return a_rollout("p", sample, "4", mask=[False] * 4, logprob=[0.0] * 4, turns=[turn])


@pytest.mark.parametrize(
    ("group", "counted"),
    [
        ([a_rollout("p", i, "4") for i in range(8)], {"num_equal_reward": 8}),
        ([a_rollout("p", i, "5") for i in range(8)], {"num_equal_reward": 8}),
        ([a_rollout("p", i, "4", stop=StopReason.LENGTH) for i in range(8)], {"truncated_frac": 1.0}),
        ([a_rollout("p", i, None) for i in range(8)], {"num_no_reward": 8, "num_aborted": 8}),
        ([a_rollout("p", i, "4", logprob=[0.0, math.nan, -1.0, -1.0]) for i in range(8)], {"num_no_reward": 8}),
        ([a_rollout("p", 0, "4")], {"num_equal_reward": 1}),
        ([a_rollout("p", i, "4" if i else None) for i in range(2)], {"num_no_reward": 1, "num_equal_reward": 1}),
        ([a_rollout("p", i, "4", ids=[1], mask=[False], logprob=[0.0], turns=[]) for i in range(8)],
         {"num_no_reward": 8, "num_sampled_tokens": 0}),
        ([tool_text_only(i) for i in range(8)], {"num_no_reward": 8, "num_sampled_tokens": 0}),
    ],
    ids=["all right", "all wrong", "all truncated", "all infra-failed", "all broken", "a group of one",
         "one graded of two", "empty responses", "tool text only"],
)  # fmt: skip
def test_a_step_with_nothing_to_learn_from_trains_nothing_and_counts_why(
    group: list[Trajectory], counted: dict[str, Any]
) -> None:
    outcome, num_trained = step_on(group)
    assert num_trained == outcome.metrics["num_updates"] == outcome.metrics["num_kept"] == 0
    assert all(t.kept is False for t in outcome.trajectories)
    assert {name: outcome.metrics[name] for name in counted} == counted
    assert any("no group has spread" in line for line in outcome.alarms)


def test_bad_rollouts_do_not_affect_good_ones() -> None:
    good = [a_rollout("p", i, "4" if i % 2 else "5") for i in range(6)]
    bad = [tool_text_only(6), a_rollout("p", 7, "4", logprob=[0.0, math.nan, -1.0, -1.0])]
    outcome, num_trained = step_on(good + bad)
    assert outcome.metrics["num_no_reward"] == 2
    assert num_trained == 4


def test_a_nan_reward_gives_no_score() -> None:
    outcome, num_trained = step_on([a_rollout("p", i, "4") for i in range(8)], own="not_a_number")
    assert (outcome.metrics["num_no_reward"], num_trained) == (8, 0)
    with pytest.raises(ValueError, match="rewards must be finite"):
        group_advantages([1.0, math.nan, 0.0])


@pytest.mark.parametrize("own", ["raising", "dying"])
def test_a_reward_that_raises_on_every_rollout_trains_nothing_and_is_alarmed(own: str) -> None:
    outcome, num_trained = step_on([a_rollout("p", i, "4") for i in range(4)], own=own)
    assert (outcome.metrics["num_no_reward"], num_trained) == (4, 0)
    assert any("the reward lost so many rollouts" in line for line in outcome.alarms)


def test_a_reward_that_hangs_on_one_rollout_costs_that_rollout_only(tmp_path: Path) -> None:
    group = [a_rollout("p", i, "4") for i in range(8)]
    trainer = FakeTrainer()
    reward = UserReward(f"{EXAMPLES}:hanging_on_sample_3", 1.0)
    stage = scripted_stage(group, trainer, FakeSampler(group), reward=reward)
    stage.pool = [
        problem.__class__(id="p", prompt=str(tmp_path / "pid"), answer="4") for problem in stage.pool
    ]
    try:
        outcome = stage.step(1)
    finally:
        reward.close()
    assert outcome.metrics["num_no_reward"] == 1
    assert group[3].reward is None
    assert sum(len(batch.rows) for batch in trainer.batches) == 4


def test_a_state_cut_in_half_is_skipped_for_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = make_checkpoint(tmp_path / "run")
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    with WorkDir.open(tmp_path / "work", "f") as work:
        expected = {}
        for step in (1, 2):
            trainer.update(UpdateBatch(rows=rows(), lr=1e-3))
            work.save(step, trainer.save)
            expected[step] = {name: tensor.clone() for name, tensor in trainer.export_weights().items()}
        cut = tmp_path / "work" / "step-000002" / "weights.safetensors"
        cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
        newest = work.newest()
    assert newest is not None
    step, state = newest
    assert step == 1
    assert "damaged" in capsys.readouterr().out
    held = load_file(state / "weights.safetensors")
    assert all((held[name] == tensor).all() for name, tensor in expected[1].items())


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"model_type": "gpt2"}, "model_type 'gpt2'"),
        ("tokenizer.json", {"added_tokens": []}, "splits <|im_end|> into"),
    ],
)
def test_a_pretrained_model_that_no_rollout_can_use_is_refused_before_sft(
    tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    source, made = make_checkpoint(tmp_path / "run"), tmp_path / "made"
    made.mkdir()
    _copy_pretrained(source, made, ChatFormat(system="brief", tool_name="python"))
    (source / file).write_text(json.dumps(json.loads((source / file).read_text()) | change))
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        _copy_pretrained(source, made, ChatFormat(system="brief", tool_name="python"))
    assert "model.path" in str(refused.value)


def test_a_parent_checkpoint_cut_in_half_is_refused_in_one_line(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "run")
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(ConfigError, match=r"model\.safetensors") as refused:
        verify(checkpoint)
    assert "\n" not in str(refused.value)
