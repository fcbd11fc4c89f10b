"""Public faults of trainers and steps (tests/BUGS.md), each as the behaviour that excludes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, Turn
from tests.trainer.stages import FakeSampler, FakeTrainer, a_rollout, objective, scripted_stage
from tests.trainer.tiny_models import VOCAB, teacher_forced, tiny_model
from trainer.metrics.alarms import alarms
from trainer.model import load_model
from trainer.selection.reward import reward_function
from trainer.update.grpo import GrpoTrainer, UpdateBatch, UpdateMetrics
from trainer.update.micro_batches import pad
from trainer.update.optimizer import adamw
from trainer.update.scoring import hidden_states
from trainer.update.training_rows import Row

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny_model().save_pretrained(folder)
    return folder


def rows(temperature: float = 1.0, dtype: type = float) -> list[Row]:
    """Ragged rows of two groups; prompt and tool text are masked."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for number, length in enumerate([5, 9, 14, 6, 11]):
        ids = torch.randint(VOCAB, (length,), generator=generator).tolist()
        mask = [t >= 2 and not (5 <= t < 8) for t in range(length)]
        made.append(
            Row(
                ids=ids,
                mask=mask,
                logprob=[-1.5 if on else 0.0 for on in mask],
                advantage=[1.0, -0.5, 0.7, -1.2, 0.4][number],
                group="a" if number < 3 else "b",
                temperature=temperature,
            )
        )
    return made


def plain_loss(checkpoint: Path, batch: list[Row]) -> float:
    """- sum of A over sampled tokens / sampled tokens: the loss at ratio 1."""
    return -sum(row.advantage * sum(row.mask) for row in batch) / sum(sum(row.mask) for row in batch)


def gradient(trainer: GrpoTrainer) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])


def update_and_gradient(
    checkpoint: Path, batch: list[Row], **changes: Any
) -> tuple[UpdateMetrics, torch.Tensor]:
    trainer = GrpoTrainer(checkpoint, objective(**changes), CPU)
    metrics = trainer.update(UpdateBatch(rows=batch, lr=0.0))
    # Clipping rescales all gradients alike; undo it to compare.
    grad = gradient(trainer)
    return metrics, grad * (metrics.grad_norm / grad.norm())


# --- arithmetic through the real model -------------------------------------------------------------------


def test_b07_the_denominator_counts_sampled_tokens_only(checkpoint: Path) -> None:
    metrics, _ = update_and_gradient(checkpoint, rows())
    assert metrics.num_tokens == sum(sum(row.mask) for row in rows())
    assert metrics.loss == pytest.approx(plain_loss(checkpoint, rows()), rel=1e-5)


def test_b13_log_probs_of_the_trainer_are_taken_at_the_sampling_temperature(checkpoint: Path) -> None:
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    batch = rows(temperature=0.6)
    for row, logprobs in zip(batch, trainer.logprobs(batch), strict=True):
        exact = teacher_forced(trainer.model, row.ids, temperature=0.6)
        expected = [exact[t - 1].item() for t, on in enumerate(row.mask) if on]
        assert logprobs == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ValueError, match="different temperatures"):
        trainer.logprobs([*batch, replace(batch[0], temperature=1.0)])


def test_b16_the_model_has_no_dropout_so_the_first_ratio_is_one(tmp_path: Path) -> None:
    """Also if the checkpoint's configuration enables dropout."""
    model = tiny_model()
    model.config.attention_dropout = 0.5
    model.save_pretrained(tmp_path)
    trainer = GrpoTrainer(tmp_path, objective(), CPU)
    batch = rows()
    old = trainer.logprobs(batch)
    again = [replace(row, logprob=_spread(row, values)) for row, values in zip(batch, old, strict=True)]
    metrics = trainer.update(UpdateBatch(rows=again, lr=0.0, old_logprobs=old))
    assert metrics.sums.max_abs_dlogp < 1e-6
    assert metrics.mismatch.max_abs_dlogp < 1e-6
    assert metrics.sums.sum_ratio == pytest.approx(metrics.num_tokens, abs=1e-5)


def _spread(row: Row, values: Sequence[float]) -> list[float]:
    left = iter(values)
    return [next(left) if on else 0.0 for on in row.mask]


def test_b20_masters_are_float32_and_a_step_of_1e_6_moves_them(checkpoint: Path, tmp_path: Path) -> None:
    tiny_model().bfloat16().save_pretrained(tmp_path)
    assert {p.dtype for p in load_model(tmp_path, CPU).parameters()} == {torch.float32}
    with pytest.raises(ValueError, match="not float32"):
        adamw(tiny_model().bfloat16(), lr=1e-6, betas=[0.9, 0.99], weight_decay=0.0)
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    before = {name: tensor.clone() for name, tensor in trainer.export_weights().items()}
    trainer.update(UpdateBatch(rows=rows(), lr=1e-6))
    moved = [
        (tensor != before[name]).float().mean().item() for name, tensor in trainer.export_weights().items()
    ]
    assert min(moved) > 0.2


def test_b21_the_mismatch_compares_the_trainer_with_what_the_engine_reported(checkpoint: Path) -> None:
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    batch = rows()
    shifted = [
        replace(row, logprob=_spread(row, [value - 0.25 for value in values]))
        for row, values in zip(batch, trainer.logprobs(batch), strict=True)
    ]
    mismatch = trainer.update(UpdateBatch(rows=shifted, lr=0.0)).mismatch
    assert mismatch.per_token(mismatch.sum_abs_dlogp) == pytest.approx(0.25, abs=1e-5)
    assert mismatch.max_abs_dlogp == pytest.approx(0.25, abs=1e-5)


def test_b22_masked_tokens_and_their_behaviour_log_probs_do_not_enter_the_loss(checkpoint: Path) -> None:
    metrics, grad = update_and_gradient(checkpoint, rows())
    noisy = [
        replace(row, logprob=[p if on else -99.0 for p, on in zip(row.logprob, row.mask, strict=True)])
        for row in rows()
    ]
    again, same = update_and_gradient(checkpoint, noisy)
    assert again.loss == metrics.loss
    assert torch.equal(grad, same)


def test_b26_padding_changes_no_log_prob(checkpoint: Path) -> None:
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    batch = rows()
    with torch.no_grad():
        alone = torch.cat([hidden_states(trainer.model, pad([row], [0])) for row in batch])
        together = hidden_states(trainer.model, pad(batch, range(5), pad_id=7))
        wider = hidden_states(trainer.model, pad(batch, range(5), pad_id=3, multiple=16))
    assert (alone - together).abs().max() < 1e-5
    assert (alone - wider).abs().max() < 1e-5


def test_b27_a_row_does_not_see_the_other_rows_of_its_micro_batch(checkpoint: Path) -> None:
    model = load_model(checkpoint, CPU)
    batch = rows()
    changed = [replace(batch[0], ids=[(i + 1) % VOCAB for i in batch[0].ids]), *batch[1:]]
    first, second = pad(batch, range(5)), pad(changed, range(5))
    with torch.no_grad():
        difference = hidden_states(model, first) - hidden_states(model, second)
    others = torch.from_numpy(first.row_S != 0)
    assert difference[others].abs().max() == 0.0
    assert difference[~others].abs().max() > 0.01


def test_b08_a_batch_without_rows_changes_nothing(checkpoint: Path) -> None:
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    before = {name: tensor.clone() for name, tensor in trainer.export_weights().items()}
    metrics = trainer.update(UpdateBatch(rows=[], lr=1.0))
    assert (metrics.num_rows, metrics.num_tokens) == (0, 0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer.export_weights().items())


def test_b46_two_updates_equal_one_save_load_and_another_bit_for_bit(
    checkpoint: Path, tmp_path: Path
) -> None:
    """Weights and both moments of the optimizer; everything else derives from (seed, step)."""
    straight = GrpoTrainer(checkpoint, objective(), CPU)
    for lr in (1e-3, 2e-3):
        straight.update(UpdateBatch(rows=rows(), lr=lr))
    first = GrpoTrainer(checkpoint, objective(), CPU)
    first.update(UpdateBatch(rows=rows(), lr=1e-3))
    first.save(tmp_path)
    resumed = GrpoTrainer(checkpoint, objective(), CPU)
    resumed.load(tmp_path)
    resumed.update(UpdateBatch(rows=rows(), lr=2e-3))
    for (name, a), b in zip(
        straight.export_weights().items(), resumed.export_weights().values(), strict=True
    ):
        assert torch.equal(a, b), name


def test_b44_the_export_holds_each_parameter_once(checkpoint: Path) -> None:
    trainer = GrpoTrainer(checkpoint, objective(), CPU)
    trainer.update(UpdateBatch(rows=rows(), lr=1e-2))
    weights = trainer.export_weights()
    assert "lm_head.weight" not in weights
    loaded = tiny_model(seed=9)
    loaded.load_state_dict(weights, strict=False)
    ids = torch.arange(10)[None]
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, trainer.model(ids).logits)


# --- one step with scripted rollouts ---------------------------------------------------------------------


def test_b17_b38_infrastructure_failures_do_not_change_the_baseline() -> None:
    answers = ["4", "4", "4", "5", None, None, None, None]
    group = [a_rollout("p", i, answer) for i, answer in enumerate(answers)]
    trainer = FakeTrainer()
    outcome = scripted_stage(group, trainer, FakeSampler(group)).step(1)
    assert [t.reward for t in outcome.trajectories] == [1.0, 1.0, 1.0, 0.0, None, None, None, None]
    assert all(not t.verdicts and t.kept is False for t in outcome.trajectories[4:])
    (batch,) = trainer.batches
    assert sorted(row.advantage for row in batch.rows) == [-1.5, 0.5, 0.5, 0.5]
    assert outcome.metrics["num_no_reward"] == outcome.metrics["num_aborted"] == 4


def test_b36_b38_a_reward_that_raises_gives_no_score() -> None:
    group = [a_rollout("p", i, "4") for i in range(8)]
    trainer = FakeTrainer()
    own = reward_function(objective(reward="tests.trainer.example_rewards:failing_on_odd_samples"))
    outcome = scripted_stage(group, trainer, FakeSampler(group), reward=own).step(1)
    assert [t.reward for t in outcome.trajectories] == [0.0, None, 1.0, None, 0.0, None, 1.0, None]
    assert len(trainer.batches[0].rows) == 4
    assert outcome.metrics["num_no_reward"] == 4


def test_b18_b32_groups_without_spread_leave_the_step_and_are_counted() -> None:
    rollouts = [a_rollout("even", i, "4") for i in range(8)]
    rollouts += [a_rollout("mixed", i, "4" if i < 4 else "5") for i in range(8)]
    trainer = FakeTrainer()
    outcome = scripted_stage(rollouts, trainer, FakeSampler(rollouts)).step(1)
    (batch,) = trainer.batches
    assert [row.group for row in batch.rows] == ["mixed"] * 4
    assert (outcome.metrics["num_equal_reward"], outcome.metrics["num_kept"]) == (8, 4)


def test_b03_b04_advantages_of_a_step_are_normalised_once_and_by_problem() -> None:
    rollouts = [a_rollout("a", i, "4" if i % 2 else "5") for i in range(4)]
    rollouts += [a_rollout("b", i, "4" if i else "5") for i in range(4)]
    trainer = FakeTrainer()
    scripted_stage(rollouts, trainer, FakeSampler(rollouts[::-1])).step(1)
    by_group = {
        name: sorted(row.advantage for row in trainer.batches[0].rows if row.group == name) for name in "ab"
    }
    assert by_group["a"] == pytest.approx([-math.sqrt(0.75)] * 2 + [math.sqrt(0.75)] * 2)
    assert by_group["b"] == [-1.5, 0.5, 0.5, 0.5]


def test_b40_alarms_name_a_vanished_or_runaway_tool() -> None:
    lines = alarms({"no_tool_frac": 0.99, "repeated_call_frac": 0.8})
    assert any("stopped using the tool" in line for line in lines)
    assert any("running away" in line for line in lines)
    turn = Turn(
        text="", start=1, end=4, call=CallKind.EXECUTED, code="1", result=ToolResult(id="c", status=Status.OK)
    )
    group = [a_rollout("p", i, "4" if i % 2 else "5", turns=[turn] * 3) for i in range(8)]
    outcome = scripted_stage(group, FakeTrainer(), FakeSampler(group)).step(1)
    assert outcome.metrics["tool_calls_mean"] == 3.0
    assert outcome.metrics["repeated_call_frac"] == 1.0


def test_warm_up_counts_steps_and_restarts_only_with_the_optimizer() -> None:
    """Paper: constant rate after a linear warm-up of 20 rollout steps; stage 3 resets the optimizer."""
    group = [a_rollout("p", i, "4" if i % 2 else "5") for i in range(8)]
    for first_step, name, expected in ((0, "rl1", 0.25), (10, "rl2", 1.0), (10, "rl3", 0.25)):
        trainer = FakeTrainer()
        stage = scripted_stage(group, trainer, FakeSampler(group))
        warm = stage.objective.optimizer.model_copy(update={"warmup_steps": 4})
        stage.objective = stage.objective.model_copy(update={"optimizer": warm})
        stage.stage, stage.first_step = name, first_step
        stage.step(first_step + 1)
        assert trainer.batches[0].lr == pytest.approx(expected * stage.objective.optimizer.lr)
