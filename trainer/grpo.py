"""The Trainer: one optimizer update of the policy on selected rollouts, and the state that goes with it.

Four calls (`update`, `logprobs`, `save`/`load`, `export_weights`); it knows rows and weights, nothing of problems,
rollouts, tools or ranks of a controller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from config.model import ObjectiveSection
from trainer.forward import score_batch, table_batch
from trainer.model import load_model
from trainer.objective import Clip, TokenSums, clipped_loss, mismatch_sums, row_weights
from trainer.optimizer import adamw, load_optimizers, save_optimizers, set_lr
from trainer.pack import MicroBatch, pad, padded_schedule
from trainer.types import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBatch:
    """Rows of one optimizer update."""

    rows: Sequence[Row]
    lr: float
    old_logprobs: Sequence[Sequence[float]] | None = None
    """Per row, per sampled token, before the first update of the step. None: this is the only update, old = current."""
    mini_batch_rows: int | None = None
    """Rows the release's normalisation expects; see `objective.row_weights`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetrics:
    loss: float
    grad_norm: float
    """Before clipping; NaN when nothing was trained."""
    lr: float
    num_rows: int
    num_tokens: int
    """Sampled tokens in the loss."""
    padding_frac: float
    sums: TokenSums
    mismatch: TokenSums
    """Trainer against engine, at the weights before this update (meaningful for the first one of a step)."""
    entropy_mean: float
    """Nats per sampled token."""


class GrpoTrainer:
    """Owns model and optimizer on one device."""

    def __init__(self, checkpoint: Path, objective: ObjectiveSection, device: torch.device) -> None:
        self.model = load_model(checkpoint, device)
        self.objective = objective
        section = objective.optimizer
        self.optimizer = adamw(
            self.model, lr=section.lr, betas=section.betas, weight_decay=section.weight_decay
        )
        self._clip = Clip(low=objective.clip_low, high=objective.clip_high)

    def update(self, batch: UpdateBatch) -> UpdateMetrics:
        """One AdamW step on the clipped loss. A batch without rows changes nothing.

        Raises ValueError before the weights are touched when a log-prob, the loss or the gradient is not finite.
        """
        rows = list(batch.rows)
        micro_batches = self._schedule(rows)
        weights = row_weights(
            self.objective.normalisation,
            [sum(row.mask) for row in rows],
            [row.group for row in rows],
            micro_batches,
            batch.mini_batch_rows,
        )
        loss, sums, mismatch, entropy, cells, tokens = 0.0, TokenSums(), TokenSums(), 0.0, 0, 0
        self.optimizer.zero_grad(set_to_none=True)
        for indices in micro_batches:
            layout = pad(rows, indices)
            part = self._backward(layout, rows, weights, batch.old_logprobs)
            loss, sums, mismatch = loss + part.loss, sums + part.sums, mismatch + part.mismatch
            entropy += part.entropy
            cells, tokens = cells + layout.ids.size, tokens + int(layout.lengths.sum())
        grad_norm = self._step(batch.lr) if rows else math.nan
        return UpdateMetrics(
            loss=loss,
            grad_norm=grad_norm,
            lr=batch.lr,
            num_rows=len(rows),
            num_tokens=sums.num_tokens,
            padding_frac=1 - tokens / cells if cells else 0.0,
            sums=sums,
            mismatch=mismatch,
            entropy_mean=sums.per_token(entropy),
        )

    def logprobs(self, rows: Sequence[Row]) -> list[list[float]]:
        """Log-probs of the sampled tokens of each row under the present weights."""
        rows = list(rows)
        result: list[list[float]] = [[] for _ in rows]
        for indices in self._schedule(rows):
            layout = pad(rows, indices)
            scores = table_batch(self.model, layout, _temperature(rows))
            for row, value in zip(layout.row_S.tolist(), scores.logprob_S.tolist(), strict=True):
                result[row].append(value)
        return result

    def export_weights(self) -> dict[str, torch.Tensor]:
        """The live parameters by name (tied ones once), for an engine in this process."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def save(self, folder: Path) -> None:
        """Write weights and optimizer state into an existing folder."""
        save_file(
            {name: tensor.contiguous() for name, tensor in self.export_weights().items()}, folder / WEIGHTS
        )
        save_optimizers([self.optimizer], folder / OPTIMIZER)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        self.load_weights(folder / WEIGHTS)
        load_optimizers([self.optimizer], folder / OPTIMIZER)

    def load_optimizer(self, path: Path) -> None:
        """Take over the optimizer state of an earlier stage."""
        load_optimizers([self.optimizer], path)

    def load_weights(self, path: Path) -> None:
        tensors = load_file(path)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(tensors[name])

    def _schedule(self, rows: list[Row]) -> list[tuple[int, ...]]:
        if not rows:
            return []
        return padded_schedule(
            [len(row.ids) for row in rows], self.objective.micro_batch_tokens
        ).micro_batches

    def _backward(
        self,
        layout: MicroBatch,
        rows: list[Row],
        weights: list[float],
        old_logprobs: Sequence[Sequence[float]] | None,
    ) -> _Part:
        device = self.model.device
        scores = score_batch(self.model, layout, _temperature(rows))
        current = scores.logprob_S
        behaviour = torch.from_numpy(layout.behaviour_S).to(device, current.dtype)
        everything = torch.ones_like(current, dtype=torch.bool)
        if old_logprobs is None:
            old = current.detach()
        else:
            flat = [value for index in layout.rows for value in old_logprobs[index]]
            old = torch.tensor(flat, dtype=current.dtype, device=device)
        loss, sums = clipped_loss(
            current,
            old,
            torch.from_numpy(layout.advantage_S).to(device, current.dtype),
            torch.tensor(weights, dtype=current.dtype, device=device)[
                torch.from_numpy(layout.row_S).to(device)
            ],
            everything,
            self._clip,
        )
        loss.backward()
        return _Part(
            loss=loss.item(),
            sums=sums,
            mismatch=mismatch_sums(current.detach(), behaviour, everything),
            entropy=scores.entropy_S.sum().item(),
        )

    def _step(self, lr: float) -> float:
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.objective.optimizer.grad_clip
        ).item()
        if not math.isfinite(norm):
            raise ValueError(f"the gradient norm is {norm}; nothing was updated")
        set_lr([self.optimizer], lr)
        self.optimizer.step()
        return norm


WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    loss: float
    sums: TokenSums
    mismatch: TokenSums
    entropy: float


def _temperature(rows: Sequence[Row]) -> float:
    """The one sampling temperature of a batch; log-probs are taken at it (public fault B13)."""
    temperatures = {row.temperature for row in rows}
    if len(temperatures) != 1:
        raise ValueError(f"rows of one update were sampled at different temperatures: {sorted(temperatures)}")
    return temperatures.pop()
