"""The trainer's gradient: one result for every split, layout and number of ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer.gradient_run import LAYOUTS, a_trainer, behaviour, gradient_of, in_type, name_of, rows
from tests.trainer.tiny_models import teacher_forced, tiny_model
from trainer.update.grpo import GrpoTrainer, UpdateBatch

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
ALL = 1_000
LONGEST = max(len(row.ids) for row in rows())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny_model().save_pretrained(folder)
    return folder


def alone(checkpoint: Path, dtype: torch.dtype) -> tuple[float, torch.Tensor]:
    """The reference: plain autograd, one row at a time, without the trainer's layouts."""
    model = in_type(tiny_model(), dtype)
    batch = rows()
    num_tokens = sum(sum(row.mask) for row in batch)
    total = torch.zeros((), dtype=dtype)
    for row, old in zip(batch, behaviour(batch), strict=True):
        logits = model(torch.tensor([row.ids])).logits[0, :-1]
        scores = logits.log_softmax(-1).gather(1, torch.tensor(row.ids[1:])[:, None])[:, 0]
        current = scores[torch.tensor(row.mask[1:])]
        ratio = (current - torch.tensor(old, dtype=dtype)).exp()
        clipped = ratio.clamp(0.8, 1.28)
        total = total - torch.minimum(ratio * row.advantage, clipped * row.advantage).sum() / num_tokens
    total.backward()
    return total.item(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("layout", "micro_batch_tokens", "num_micro_batches"),
    [
        ("padded", ALL, None),
        ("padded", 34, None),
        ("padded", LONGEST, 8),
        ("packed", ALL, 1),
        ("packed", 48, 2),
        ("packed", 29, 4),
        ("packed", 20, None),
        ("packed", LONGEST, None),
    ],
)
def test_the_gradient_is_that_of_rows_alone_for_every_split_and_layout(
    checkpoint: Path, dtype: torch.dtype, layout: str, micro_batch_tokens: int, num_micro_batches: int | None
) -> None:
    """1, 2, 4 and uneven micro-batches; padded, packed with shared prompts, one row each (B5, B26, B27)."""
    trainer = a_trainer(checkpoint, dtype, layout=layout, micro_batch_tokens=micro_batch_tokens)
    if num_micro_batches is not None:
        assert len(trainer._schedule(rows()).micro_batches) == num_micro_batches
    loss, reference = alone(checkpoint, dtype)
    metrics, gradient = gradient_of(trainer, rows())
    assert reference.norm() > 0
    assert (gradient - reference).norm() <= TOLERANCE[dtype] * reference.norm()
    assert metrics.loss == pytest.approx(loss, rel=TOLERANCE[dtype])
    assert metrics.sums.num_clipped_low + metrics.sums.num_clipped_high > 0
    assert (metrics.shared_frac > 0) is (layout == "packed")


@pytest.fixture(scope="module")
def two_ranks(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of two real gloo processes, for every type and layout in one launch."""
    folder = tmp_path_factory.mktemp("ranks")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "-m", "tests.trainer.gradient_run", str(checkpoint), str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_two_gloo_ranks_hold_the_gradient_of_one(
    checkpoint: Path, dtype: torch.dtype, layout: str, two_ranks: Path
) -> None:
    """Both end with equal weights, and a batch that one of them refuses changes neither."""
    held = [load_file(two_ranks / name_of(dtype, layout, rank)) for rank in range(2)]
    trainer = a_trainer(checkpoint, dtype, layout=layout, micro_batch_tokens=ALL)
    metrics, gradient = gradient_of(trainer, rows())
    logprobs = [value for values in trainer.logprobs(rows()) for value in values]
    first = trainer.update(UpdateBatch(rows=rows(), lr=1e-3))
    numbers = [metrics.loss, metrics.num_tokens, metrics.sums.max_abs_dlogp, metrics.sums.sum_ratio,
               first.grad_norm, 1.0]  # fmt: skip
    for tensors in held:
        assert (tensors["gradient"] - gradient).norm() <= TOLERANCE[dtype] * gradient.norm()
        assert tensors["logprobs"].tolist() == pytest.approx(logprobs, abs=1e-5)
        assert tensors["numbers"].tolist() == pytest.approx(numbers, rel=1e-4)
    assert torch.equal(held[0]["weights"], held[1]["weights"])
    assert torch.equal(held[0]["gradient"], held[1]["gradient"])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("micro_batch_tokens", [LONGEST, 40, ALL])
def test_the_first_ratio_is_one_within_1e_6_in_float32(
    checkpoint: Path, layout: str, micro_batch_tokens: int
) -> None:
    """A separate pass computes old log-probs, with the update's splits and layout (B16)."""
    trainer = a_trainer(checkpoint, torch.float32, layout=layout, micro_batch_tokens=micro_batch_tokens)
    old = trainer.logprobs(rows())
    metrics = trainer.backward(UpdateBatch(rows=rows(), lr=0.0, old_logprobs=old))
    assert metrics.sums.max_abs_dlogp <= 1e-6
    assert metrics.sums.num_clipped_low + metrics.sums.num_clipped_high == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_activation_checkpointing_changes_no_gradient_and_enables_no_dropout(
    layout: str, tmp_path: Path
) -> None:
    model = tiny_model()
    model.config.attention_dropout = 0.5
    model.save_pretrained(tmp_path)
    plain = a_trainer(tmp_path, torch.float32, layout=layout)
    saving = a_trainer(tmp_path, torch.float32, layout=layout, checkpoint_activations=True)
    calls = count_layer_calls(saving)
    one, other = gradient_of(plain, rows())[1], gradient_of(saving, rows())[1]
    assert torch.equal(one, other)
    assert calls[0] > saving.model.config.num_hidden_layers * len(saving._schedule(rows()).micro_batches)


def count_layer_calls(trainer: GrpoTrainer) -> list[int]:
    """Number of attention calls; above one per layer and micro-batch if activations are recomputed."""
    calls = [0]

    def count(*_: object) -> None:
        calls[0] += 1

    for name, module in trainer.model.named_modules():
        if name.endswith("self_attn"):
            module.register_forward_hook(count)
    return calls


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_products_stay_near_and_leave_masters_in_float32(
    checkpoint: Path, layout: str
) -> None:
    exact = a_trainer(checkpoint, torch.float32, layout=layout)
    half = a_trainer(checkpoint, torch.float32, layout=layout, compute="bfloat16", micro_batch_tokens=40)
    (_, one), (_, other) = gradient_of(exact, rows()), gradient_of(half, rows())
    assert other.dtype == torch.float32
    assert not torch.equal(one, other)
    assert torch.nn.functional.cosine_similarity(one, other, dim=0) > 0.999
    old = half.logprobs(rows())
    assert half.update(UpdateBatch(rows=rows(), lr=1e-3, old_logprobs=old)).sums.max_abs_dlogp < 1e-6
    assert {p.dtype for p in half.model.parameters()} == {torch.float32}
    # The weights have changed, and the next pass uses them: casts do not outlive an update.
    assert half.logprobs(rows()) != old


def test_packed_log_probs_are_those_of_each_row_alone(checkpoint: Path) -> None:
    """A shared prompt is computed once; each row still attends to its own tokens only (B27)."""
    trainer = a_trainer(checkpoint, torch.float32, layout="packed")
    for row, values in zip(rows(), trainer.logprobs(rows()), strict=True):
        exact = teacher_forced(trainer.model, row.ids)
        assert values == pytest.approx([exact[t - 1].item() for t, on in enumerate(row.mask) if on], abs=1e-5)
    changed = [replace(rows()[0], ids=[*rows()[0].ids[:6], *[60] * 6]), *rows()[1:]]
    assert trainer.logprobs(changed)[1:] == trainer.logprobs(rows())[1:]
    assert trainer.logprobs(changed)[0] != trainer.logprobs(rows())[0]


def test_a_layout_the_model_was_not_loaded_for_is_refused(checkpoint: Path) -> None:
    trainer = a_trainer(checkpoint, torch.float32, layout="padded")
    trainer.objective = trainer.objective.model_copy(update={"layout": "packed"})
    with pytest.raises(ValueError, match="attend to each other"):
        trainer.logprobs(rows())
