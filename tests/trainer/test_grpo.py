"""The trainer on a tiny random model; masks, denominators and resuming are in test_faults_trainer.py."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from records.problem import Problem
from records.tool_call import Limits
from tests.trainer.fakes import AdmitAll, ScriptedTool
from tests.trainer.tiny_checkpoint import VOCAB, tiny_config
from trainer.engines.local import LocalEngine
from trainer.rollout.chat import chat_format
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.tokenizer import FolderCodec
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.update.grpo import GrpoTrainer, UpdateBatch
from trainer.update.training_rows import Row, row_of

CPU = torch.device("cpu")


def trainer_of(checkpoint: Path, **changes: Any) -> GrpoTrainer:
    return GrpoTrainer(checkpoint, tiny_config().objective.model_copy(update=changes), CPU)


def ragged(temperature: float = 1.0) -> list[Row]:
    generator = torch.Generator().manual_seed(1)
    rows = []
    for number, length in enumerate([6, 17, 9, 12]):
        ids = torch.randint(VOCAB, (length,), generator=generator).tolist()
        mask = [t >= 3 and t % 5 != 4 for t in range(length)]
        logprob = [-5.8 * on for on in mask]
        advantage, group = (-1.0) ** number, "ab"[number % 2]
        rows.append(
            Row(
                ids=ids, mask=mask, logprob=logprob, advantage=advantage, group=group, temperature=temperature
            )
        )
    return rows


def weights(trainer: GrpoTrainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.export_weights().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainers_log_probs_are_the_engines_on_sampled_rollouts(
    temperature: float, tiny_checkpoint: Path
) -> None:
    """Several turns, tool text between them, ragged lengths, prompts shared by siblings: within 1e-5."""
    engine = LocalEngine(engine=0, capacity_tokens=4096, max_len=400)
    engine.take_weights(tiny_checkpoint, version=0)
    codec = FolderCodec.load(tiny_checkpoint)
    loop = RolloutLoop(
        engines=[engine], policy=AdmitAll(),
        episodes=ToolEpisodes(tool=ScriptedTool(), chat=chat_format(tiny_config().rollout)), codec=codec,
        settings=RolloutSettings(
            run="r", checkpoint="c", benchmark="rl1", max_prompt=200, max_response=40, max_turns=3,
            temperature=temperature, top_p=1.0, seed=5, policy_version=0, limits=Limits(), rejoin_iterations=2,
        ),
    )  # fmt: skip
    problems = [Problem(id=name, prompt=f"What is {name}?", answer="1") for name in ("one", "twenty two")]
    tasks = [Task(problem=problem, sample=i) for problem in problems for i in range(6)]
    rows = [row_of(trajectory, 1.0) for trajectory, _ in loop.run(tasks)]
    trainer = trainer_of(tiny_checkpoint)
    worst = max(
        abs(one - other)
        for row, logprobs in zip(rows, trainer.logprobs(rows), strict=True)
        for one, other in zip(
            logprobs, [p for p, on in zip(row.logprob, row.mask, strict=True) if on], strict=True
        )
    )
    assert worst < 1e-5
    metrics = trainer.update(UpdateBatch(rows=rows, lr=0.0))
    assert metrics.mismatch.max_abs_dlogp < 1e-5
    assert metrics.num_tokens == sum(sum(row.mask) for row in rows)


def test_later_updates_of_a_step_are_measured_against_the_old_log_probs(tiny_checkpoint: Path) -> None:
    """Old log-probs stay those before the first update, so the ratio differs from 1 and the clip acts."""
    trainer = trainer_of(tiny_checkpoint)
    old = trainer.logprobs(ragged())
    first = trainer.update(UpdateBatch(rows=ragged(), lr=2e-2, old_logprobs=old))
    assert first.sums.max_abs_dlogp < 1e-5
    second = trainer.update(UpdateBatch(rows=ragged(), lr=2e-2, old_logprobs=old))
    assert second.sums.max_abs_dlogp > 0.05
    assert second.sums.num_clipped_low + second.sums.num_clipped_high > 0
    moved = trainer_of(tiny_checkpoint)
    moved.update(UpdateBatch(rows=ragged(), lr=2e-2))
    forgotten = moved.update(UpdateBatch(rows=ragged(), lr=2e-2))
    assert forgotten.sums.max_abs_dlogp < 1e-6


def test_an_update_raises_good_rollouts_and_lowers_bad_ones(tiny_checkpoint: Path) -> None:
    trainer = trainer_of(tiny_checkpoint)
    before = trainer.logprobs(ragged())
    for _ in range(3):
        trainer.update(UpdateBatch(rows=ragged(), lr=1e-3))
    for row, old, new in zip(ragged(), before, trainer.logprobs(ragged()), strict=True):
        assert (sum(new) > sum(old)) is (row.advantage > 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_log_prob_that_is_not_finite_is_refused_before_the_weights_move(
    value: float, tiny_checkpoint: Path
) -> None:
    trainer = trainer_of(tiny_checkpoint)
    before = weights(trainer)
    row = ragged()[1]
    broken = [value if t == 5 else p for t, p in enumerate(row.logprob)]
    with pytest.raises(ValueError, match=r"finite|nan|inf"):
        trainer.update(UpdateBatch(rows=[ragged()[0], replace(row, logprob=broken)], lr=1e-2))
    with pytest.raises(ValueError, match=r"finite|nan|inf"):
        trainer.update(UpdateBatch(rows=[replace(row, advantage=value)], lr=1e-2))
    assert same(before, weights(trainer))


def test_the_next_stage_can_load_the_optimizer_alone(tiny_checkpoint: Path, tmp_path: Path) -> None:
    first = trainer_of(tiny_checkpoint)
    first.update(UpdateBatch(rows=ragged(), lr=1e-3))
    first.save(tmp_path)
    kept, reset = trainer_of(tiny_checkpoint), trainer_of(tiny_checkpoint)
    kept.load_optimizer(tmp_path / "optimizer.safetensors")
    for trainer in (kept, reset):
        trainer.load_weights(tmp_path / "weights.safetensors")
        trainer.update(UpdateBatch(rows=ragged(), lr=1e-3))
    assert not same(weights(kept), weights(reset))
    first.update(UpdateBatch(rows=ragged(), lr=1e-3))
    assert same(weights(kept), weights(first))


def test_the_kl_term_pulls_back_to_the_first_policy_and_vanishes_there(tiny_checkpoint: Path) -> None:
    """At the reference the term and its gradient are 0; after a step its gradient is that of k3."""
    rows = ragged()
    plain, held = trainer_of(tiny_checkpoint), trainer_of(tiny_checkpoint, kl_weight=0.5)
    assert plain.reference_logprobs(rows) is None
    reference = held.reference_logprobs(rows)
    assert reference == held.logprobs(rows)
    for trainer in (plain, held):
        trainer.update(UpdateBatch(rows=rows, lr=1e-3, reference_logprobs=reference))
    assert same(weights(plain), weights(held))
    assert held.reference_logprobs(rows) == reference
    away = weights(held)
    silent = [replace(row, advantage=0.0) for row in rows]
    held.update(UpdateBatch(rows=silent, lr=1e-4, reference_logprobs=reference))
    now = held.logprobs(rows)
    held._put(away)
    before = held.logprobs(rows)
    assert _k3(now, reference) < _k3(before, reference)


def _k3(current: list[list[float]], reference: list[list[float]] | None) -> float:
    assert reference is not None
    pairs = [(c, r) for cs, rs in zip(current, reference, strict=True) for c, r in zip(cs, rs, strict=True)]
    return sum(math.exp(r - c) - 1 - (r - c) for c, r in pairs)


def test_a_kl_term_without_a_reference_is_refused_before_any_weight_moves(tiny_checkpoint: Path) -> None:
    trainer = trainer_of(tiny_checkpoint, kl_weight=0.5)
    before = weights(trainer)
    with pytest.raises(ValueError, match="reference policy"):
        trainer.update(UpdateBatch(rows=ragged(), lr=1e-3))
    assert same(before, weights(trainer))


def test_the_entropy_bonus_raises_the_entropy(tiny_checkpoint: Path) -> None:
    silent = [replace(row, advantage=0.0) for row in ragged()]
    trainer = trainer_of(tiny_checkpoint, entropy_weight=1.0)
    first = trainer.update(UpdateBatch(rows=silent, lr=1e-3)).entropy_mean
    second = trainer.update(UpdateBatch(rows=silent, lr=1e-3)).entropy_mean
    assert second > first
    without = trainer_of(tiny_checkpoint)
    before = weights(without)
    without.backward(UpdateBatch(rows=silent, lr=1e-3))
    assert all(p.grad is None or not p.grad.any() for p in without.model.parameters())
    assert same(before, weights(without))
