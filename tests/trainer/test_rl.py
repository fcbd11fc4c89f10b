"""One RL step on a tiny random model: no rollout is lost, resuming changes nothing."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from records.problem import Problem
from records.trajectory import Rollout, StopReason, Trajectory
from records.trajectory_files import read_parquet, write_parquet
from records.trajectory_row import to_row
from records.verdict import Verdict, VerdictKind
from tests.trainer.stages import FakeSampler, FakeTrainer, a_rollout, real_stage, scripted_stage
from trainer.metrics.step_metrics import progress_note
from trainer.rollout.episode import RolloutClock
from trainer.rollout.task import Task
from trainer.selection.reward import even_ids
from trainer.selection.roc import SelectionReason
from trainer.stages.rl import StepOutcome, split_by_group
from trainer.update.training_rows import Row


def frozen(outcome: StepOutcome) -> str:
    """Metrics and trajectories as text, without the clock."""
    return json.dumps([outcome.metrics, [to_row(t) for t in outcome.trajectories]], sort_keys=True)


def test_a_step_loses_no_rollout_and_gives_a_reason_for_each(tiny_checkpoint: Path) -> None:
    stage = real_stage(tiny_checkpoint)
    before = stage.trainer.export_weights()["model.norm.weight"].clone()
    outcome = stage.step(1)
    metrics, trajectories = outcome.metrics, outcome.trajectories
    assert len(trajectories) == 3 * 4 * 2 == metrics["num_rollouts"]
    dropped = sum(metrics[f"num_{reason.value}"] for reason in SelectionReason if not reason.is_kept)
    assert metrics["num_kept"] + dropped == len(trajectories)
    assert all(t.kept is not None and t.reason for t in trajectories)
    assert [t.key for t in trajectories] == sorted(t.key for t in trajectories)
    assert 0 < metrics["num_kept"] == sum(bool(t.kept) for t in trajectories) <= 12
    kept = [t for t in trajectories if t.kept]
    assert metrics["num_trained_tokens"] == sum(t.num_sampled for t in kept)
    assert all(not isinstance(v, float) or math.isfinite(v) for v in metrics.values())
    assert metrics["mismatch_abs_max"] < 1e-4
    assert (outcome.step, outcome.journal_row["policy_version"], metrics["num_updates"]) == (1, 0, 1)
    assert not torch.equal(before, stage.trainer.export_weights()["model.norm.weight"])
    assert "acc" in progress_note(metrics)
    assert {t.reward for t in trajectories} == {0.0, 1.0}


def test_the_journal_and_the_file_of_trajectories_can_hold_a_step(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    outcome = real_stage(tiny_checkpoint).step(1)
    json.dumps(outcome.journal_row, allow_nan=False)
    json.dumps(outcome.clock.to_json(), allow_nan=False)
    write_parquet(outcome.trajectories, tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet") == outcome.trajectories


def test_a_rollout_is_graded_while_others_are_sampled() -> None:
    """The sampler makes its second rollout only once the first is graded."""
    is_graded = threading.Event()

    class Waiting(FakeSampler):
        def run(
            self, tasks: Sequence[Task], policy_version: int
        ) -> Iterator[tuple[Trajectory, RolloutClock]]:
            for rollout, _ in super().run(tasks, policy_version):
                yield rollout, RolloutClock(num_retries=rollout.sample)
                assert is_graded.wait(20)

    def reward(problem: Problem, rollout: Rollout) -> Verdict:
        is_graded.set()
        return Verdict(id=problem.id, verdict=VerdictKind(["wrong", "correct"][rollout.sample % 2]))

    rollouts = [a_rollout(problem, sample, "4") for problem in "ba" for sample in (3, 0, 2, 1)]
    outcome = scripted_stage(rollouts, FakeTrainer(), Waiting(rollouts), reward).step(1)
    assert [(t.problem, t.sample, t.reward) for t in outcome.trajectories] == [
        (problem, sample, float(sample % 2)) for problem in "ab" for sample in range(4)
    ]
    assert [clock.num_retries for clock in outcome.rollout_clocks] == [*range(4)] * 2


def test_a_later_stage_continues_with_the_next_problems(tiny_checkpoint: Path) -> None:
    seen = []
    for first in (0, 1):
        stage = replace(real_stage(tiny_checkpoint), first_step=first)
        stage.sampler.take_weights(stage.trainer, version=first)
        seen.append({t.problem for t in stage.step(first + 1).trajectories})
    assert len(seen[0]) == len(seen[1]) == 3
    assert not seen[0] & seen[1]


def test_filtered_overlong_rollouts_are_wrong_but_not_lost(tiny_checkpoint: Path) -> None:
    outcomes = {
        overlong: real_stage(tiny_checkpoint, even_ids, f"objective.overlong={overlong}").step(1)
        for overlong in ("penalise", "filter")
    }
    cut = [t for t in outcomes["filter"].trajectories if t.stop is StopReason.LENGTH]
    assert 0 < len(cut) < 24
    assert all((t.reward, t.kept, t.reason) == (None, False, "overlong") for t in cut)
    metrics = {name: outcome.metrics for name, outcome in outcomes.items()}
    for name in ("accuracy", "truncated_frac"):
        assert metrics["filter"][name] == metrics["penalise"][name]
    assert (metrics["filter"]["num_overlong"], metrics["filter"]["no_reward_frac"]) == (len(cut), 0.0)


def test_a_resumed_stage_equals_a_straight_one_bit_for_bit(tiny_checkpoint: Path, tmp_path: Path) -> None:
    straight = real_stage(tiny_checkpoint)
    expected = [frozen(straight.step(step)) for step in (1, 2, 3)]
    first = real_stage(tiny_checkpoint)
    assert frozen(first.step(1)) == expected[0]
    first.trainer.save(tmp_path)
    second = real_stage(tiny_checkpoint)
    second.trainer.load(tmp_path)
    second.sampler.take_weights(second.trainer, version=1)
    assert [frozen(second.step(step)) for step in (2, 3)] == expected[1:]
    resumed = second.trainer.export_weights()
    assert all(
        torch.equal(tensor, resumed[name]) for name, tensor in straight.trainer.export_weights().items()
    )


def test_several_updates_a_step_split_it_by_groups_and_keep_the_old_log_probs(tiny_checkpoint: Path) -> None:
    three = ("objective.updates_per_step=3",)
    outcome = real_stage(tiny_checkpoint, even_ids, *three).step(1)
    assert 2 <= outcome.metrics["num_updates"] <= 3
    assert outcome.metrics["num_trained_tokens"] == sum(t.num_sampled for t in outcome.trajectories if t.kept)
    assert outcome.metrics["ratio_mean"] != 1.0
    assert outcome.metrics["mismatch_abs_max"] < 1e-4


def test_whole_groups_go_to_updates_and_every_row_once() -> None:
    rows = [
        Row(ids=[0, 1], mask=[False, True], logprob=[0.0, -1.0], advantage=0.0, group=group)
        for group in "abacbdd"
    ]
    parts = split_by_group(rows, 3)
    assert sorted(i for part in parts for i in part) == list(range(7))
    assert [{rows[i].group for i in part} for part in parts] == [{"a", "d"}, {"b"}, {"c"}]
    assert split_by_group(rows[:1], 3) == [[0]]
