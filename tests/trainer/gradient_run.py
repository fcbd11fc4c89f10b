"""One gradient of the trainer, and one update, on a fixed batch; also runs as one rank.

`torchrun --nproc-per-node 2 -m tests.trainer.gradient_run CHECKPOINT OUT` writes the results of each rank.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from config.resolve import resolve
from tests.trainer.tiny_models import VOCAB
from trainer.update.data_parallel import Ranks
from trainer.update.grpo import GrpoTrainer, UpdateBatch, UpdateMetrics
from trainer.update.training_rows import Row

CPU = torch.device("cpu")
LAYOUTS = ("padded", "packed")
PROMPTS = {"a": [7, 8, 9, 10, 11], "b": [3, 4]}
LENGTHS = [12, 17, 9, 12, 11, 14, 8, 16]
"""Tokens of whole rows; longer than either prompt."""


def rows() -> list[Row]:
    """Eight ragged rows of two groups: shared prompts, tool text in between, one row without a sampled token."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for number, length in enumerate(LENGTHS):
        group = "ab"[number % 2]
        own = torch.randint(VOCAB, (length - len(PROMPTS[group]),), generator=generator).tolist()
        ids = PROMPTS[group] + own
        mask = [t >= len(PROMPTS[group]) and t % 5 != 4 and number != 6 for t in range(length)]
        logprob = [-3.9 - 0.1 * (t % 3) if on else 0.0 for t, on in enumerate(mask)]
        advantage = [1.0, -0.5, 0.7, -1.2][number % 4]
        made.append(Row(ids=ids, mask=mask, logprob=logprob, advantage=advantage, group=group))
    return made


def a_trainer(
    checkpoint: Path, dtype: torch.dtype, ranks: Ranks | None = None, **changes: Any
) -> GrpoTrainer:
    objective = resolve().objective.model_copy(update=changes)
    trainer = GrpoTrainer(checkpoint, objective, CPU, ranks)
    in_type(trainer.model, dtype)
    return trainer


def in_type(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """The module computing in `dtype`; in float64 also its norms, which transformers computes in float32."""
    model.to(dtype)  # pyright: ignore[reportArgumentType]  # its wrapper hides the signature
    if dtype is torch.float64:
        for module in model.modules():
            if isinstance(module, Qwen3RMSNorm):
                module.forward = partial(rms_norm, module)
    return model


def rms_norm(module: Qwen3RMSNorm, hidden_states: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(
        hidden_states, hidden_states.shape[-1:], module.weight, module.variance_epsilon
    )


def behaviour(batch: list[Row]) -> list[list[float]]:
    """Behaviour log-probs as old ones, so that ratios differ from 1 and the clip acts."""
    return [[p for p, on in zip(row.logprob, row.mask, strict=True) if on] for row in batch]


def gradient_of(trainer: GrpoTrainer, batch: list[Row]) -> tuple[UpdateMetrics, torch.Tensor]:
    metrics = trainer.backward(UpdateBatch(rows=batch, lr=0.0, old_logprobs=behaviour(batch)))
    gradients = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    return metrics, torch.cat(gradients)


def name_of(dtype: torch.dtype, layout: str, rank: int) -> str:
    return f"{dtype}-{layout}-{rank}.safetensors"


def main(checkpoint: str, out: str) -> None:
    """Write the results of this rank, for each type and layout."""
    torch.set_num_threads(1)
    ranks = Ranks.joined(CPU)
    for dtype in (torch.float64, torch.float32):
        for layout in LAYOUTS:
            changes = {"layout": layout, "micro_batch_tokens": 24}
            held = run(a_trainer(Path(checkpoint), dtype, ranks, **changes))
            save_file(held, Path(out) / name_of(dtype, layout, ranks.rank))


def run(trainer: GrpoTrainer) -> dict[str, torch.Tensor]:
    """Gradient, log-probs and sums of the batch, weights after one update; then a batch that one rank must refuse."""
    batch = rows()
    metrics, gradient = gradient_of(trainer, batch)
    logprobs = [value for values in trainer.logprobs(batch) for value in values]
    first = trainer.update(UpdateBatch(rows=batch, lr=1e-3))
    broken = [replace(batch[0], logprob=[float("nan")] * len(batch[0].ids)), *batch[1:]]
    refused = 0.0
    try:
        trainer.update(UpdateBatch(rows=broken, lr=1e-3))
    except ValueError:
        refused = 1.0
    numbers = [metrics.loss, metrics.num_tokens, metrics.sums.max_abs_dlogp, metrics.sums.sum_ratio,
               first.grad_norm, refused]  # fmt: skip
    return {
        "gradient": gradient,
        "logprobs": torch.tensor(logprobs, dtype=torch.float64),
        "weights": torch.cat([p.detach().flatten() for p in trainer.model.parameters()]),
        "numbers": torch.tensor(numbers, dtype=torch.float64),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
