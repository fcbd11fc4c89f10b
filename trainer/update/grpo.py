"""`GrpoTrainer`: one optimizer update of the policy on selected rollouts, and the state of the optimizer.

Its calls are `update`, `logprobs`, `save`/`load` and `export_weights`; it depends on rows and weights only. On several
ranks each rank makes the same calls with the same batch. The plan is a pure function of the batch; each rank runs its
part of it, and gradients are summed (`trainer.update.data_parallel`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from config.objective import ObjectiveSection
from records.errors import ConfigError
from trainer.model import checkpoint_activations, load_model
from trainer.update.attention import SPANS
from trainer.update.data_parallel import Ranks
from trainer.update.loss import (
    TokenSums,
    clipped_loss,
    entropy_bonus,
    kl_penalty,
    mismatch_sums,
    row_weights,
)
from trainer.update.micro_batches import MicroBatch, Schedule, pack, pad, padded_schedule, shared_schedule
from trainer.update.optimizer import adamw, load_optimizers, save_optimizers, set_lr
from trainer.update.scoring import computing, score_batch, table_batch
from trainer.update.training_rows import Row
from trainer.weights import put


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBatch:
    """Rows of one optimizer update."""

    rows: Sequence[Row]
    lr: float
    old_logprobs: Sequence[Sequence[float]] | None = None
    """Per row and sampled token, before the first update of the step. None: this is the only update, old = current."""
    reference_logprobs: Sequence[Sequence[float]] | None = None
    """As `old_logprobs`, under the stage's first policy; required while `objective.kl_weight` is not 0."""
    mini_batch_rows: int | None = None
    """Rows that the release's normalisation expects; see `objective.row_weights`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetrics:
    loss: float
    grad_norm: float
    """Before clipping; NaN if no row was trained."""
    lr: float
    num_rows: int
    num_tokens: int
    """Sampled tokens in the loss."""
    padding_frac: float
    """Share of the computed cells without a token."""
    shared_frac: float = 0.0
    """Share of the tokens of all rows that were not computed, because another row has the same prompt."""
    sums: TokenSums
    mismatch: TokenSums
    """Trainer against engine, at the weights before this update (meaningful for the first one of a step)."""
    entropy_mean: float
    """Nats per sampled token."""


class GrpoTrainer:
    """Model and optimizer on one device; with several ranks, one of several equal trainers."""

    def __init__(
        self, checkpoint: Path, objective: ObjectiveSection, device: torch.device, ranks: Ranks | None = None
    ) -> None:
        self.model = load_model(checkpoint, device)
        if objective.layout == "packed":
            self.model.set_attn_implementation(SPANS)
        if objective.checkpoint_activations:
            checkpoint_activations(self.model)
        self.objective = objective
        self.ranks = ranks or Ranks()
        section = objective.optimizer
        self.optimizer = adamw(
            self.model, lr=section.lr, betas=section.betas, weight_decay=section.weight_decay
        )
        self._clip = objective.clip
        self._reference = (
            {n: p.detach().clone() for n, p in self.model.named_parameters()} if objective.kl_weight else None
        )

    def update(self, batch: UpdateBatch) -> UpdateMetrics:
        """Make one AdamW step on the clipped loss. A batch without rows changes nothing.

        Raises ValueError, before any weight changes, when a log-prob, the loss or the gradient is not finite.
        """
        metrics = self.backward(batch)
        return replace(metrics, grad_norm=self._step(batch.lr)) if batch.rows else metrics

    def backward(self, batch: UpdateBatch) -> UpdateMetrics:
        """Compute the gradients of the whole batch, summed over micro-batches and ranks; make no step."""
        rows = list(batch.rows)
        schedule = self._schedule(rows)
        weights = row_weights(
            self.objective.normalisation,
            [sum(row.mask) for row in rows],
            [row.group for row in rows],
            schedule.micro_batches,
            batch.mini_batch_rows,
        )
        self.optimizer.zero_grad(set_to_none=True)
        part, complaint = _Part(), None
        with computing(self.objective.compute, self.model.device):
            try:
                for indices in filter(None, schedule.ranks[self.ranks.rank]):
                    layout = self._lay_out(rows, indices)
                    part = part + self._micro_batch(layout, rows, weights, batch)
            except ValueError as error:
                complaint = error
        self._agree(complaint)
        if rows:
            self.ranks.sum_gradients(self.model.parameters())
        part = part.over(self.ranks, self.model.device)
        return UpdateMetrics(
            loss=part.loss,
            grad_norm=math.nan,
            lr=batch.lr,
            num_rows=len(rows),
            num_tokens=part.sums.num_tokens,
            padding_frac=1 - part.used / part.cells if part.cells else 0.0,
            shared_frac=1 - part.used / part.tokens if part.tokens else 0.0,
            sums=part.sums,
            mismatch=part.mismatch,
            entropy_mean=part.sums.per_token(part.entropy),
        )

    def logprobs(self, rows: Sequence[Row]) -> list[list[float]]:
        """Return log-probs of the sampled tokens of each row under the current weights, equal on every rank."""
        rows = list(rows)
        device = self.model.device
        starts = [0, *accumulate(sum(row.mask) for row in rows)]
        held = torch.zeros(starts[-1], dtype=torch.float64, device=device)
        with computing(self.objective.compute, device):
            for indices in filter(None, self._schedule(rows).ranks[self.ranks.rank]):
                layout = self._lay_out(rows, indices)
                scores = table_batch(self.model, layout, _temperature(rows)).logprob_S.double()
                row_S = torch.from_numpy(layout.row_S).to(device)
                for index in indices:
                    held[starts[index] : starts[index + 1]] = scores[row_S == index]
        values = self.ranks.sum(held).tolist()
        return [values[start:end] for start, end in pairwise(starts)]

    def reference_logprobs(self, rows: Sequence[Row]) -> list[list[float]] | None:
        """Return log-probs of the sampled tokens under the initial weights; None without a KL term."""
        if self._reference is None:
            return None
        present = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        try:
            self._put(self._reference)
            return self.logprobs(rows)
        finally:
            self._put(present)

    def export_weights(self) -> dict[str, torch.Tensor]:
        """Return the live parameters by name (tied ones once), for an engine in this process."""
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
        """Load the optimizer state of an earlier stage."""
        load_optimizers([self.optimizer], path)

    def load_weights(self, path: Path) -> None:
        self._put(load_file(path))

    def _put(self, tensors: Mapping[str, torch.Tensor]) -> None:
        put(tensors, self.model)

    def _schedule(self, rows: list[Row]) -> Schedule:
        """The plan, equal on all ranks."""
        most, size = self.objective.micro_batch_tokens, self.ranks.size
        if self.objective.layout == "packed":
            return shared_schedule(rows, most, size)
        return padded_schedule([len(row.ids) for row in rows], most, num_ranks=size)

    def _lay_out(self, rows: list[Row], indices: Sequence[int]) -> MicroBatch:
        packed = self.objective.layout == "packed"
        return pack(rows, indices, share=True) if packed else pad(rows, indices)

    def _agree(self, complaint: ValueError | None) -> None:
        """Raise on every rank the fault that one of them found, before any sum or update."""
        (num_failed,) = self.ranks.total([complaint is not None], self.model.device)
        if complaint is not None:
            raise complaint
        if num_failed:
            raise ValueError("another rank could not compute its part of the batch; nothing was updated")

    def _micro_batch(
        self,
        layout: MicroBatch,
        rows: list[Row],
        weights: list[float],
        batch: UpdateBatch,
    ) -> _Part:
        device, objective = self.model.device, self.objective
        scores = score_batch(
            self.model,
            layout,
            _temperature(rows),
            entropy_grad=objective.entropy_weight > 0,
        )
        current = scores.logprob_S
        behaviour = torch.from_numpy(layout.behaviour_S).to(device, current.dtype)
        everything = torch.ones_like(current, dtype=torch.bool)
        old = current.detach() if batch.old_logprobs is None else _flat(batch.old_logprobs, layout, current)
        weight_S = torch.tensor(weights, dtype=current.dtype, device=device)[
            torch.from_numpy(layout.row_S).to(device)
        ]
        loss, sums = clipped_loss(
            current,
            old,
            torch.from_numpy(layout.advantage_S).to(device, current.dtype),
            weight_S,
            everything,
            self._clip,
        )
        # Terms that the paper removes (section 2.2); experiment arms restore them.
        if objective.kl_weight:
            if batch.reference_logprobs is None:
                raise ValueError("objective.kl_weight needs the log-probs of a reference policy")
            reference = _flat(batch.reference_logprobs, layout, current)
            loss = loss + objective.kl_weight * kl_penalty(current, reference, weight_S, everything)
        if objective.entropy_weight:
            loss = loss - objective.entropy_weight * entropy_bonus(scores.entropy_S, weight_S, everything)
        loss.backward()
        return _Part(
            loss=loss.item(),
            sums=sums,
            mismatch=mismatch_sums(current.detach(), behaviour, everything),
            entropy=scores.entropy_S.sum().item(),
            cells=layout.ids.size,
            used=layout.num_used,
            tokens=int(layout.lengths.sum()),
        )

    def _step(self, lr: float) -> float:
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.objective.optimizer.grad_clip
        ).item()
        if not math.isfinite(norm):
            raise ConfigError(
                f"the gradient norm is {norm}; nothing was updated: lower objective.optimizer.lr"
            )
        set_lr([self.optimizer], lr)
        self.optimizer.step()
        return norm


WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Sums over some micro-batches."""

    loss: float = 0.0
    sums: TokenSums = field(default_factory=TokenSums)
    mismatch: TokenSums = field(default_factory=TokenSums)
    entropy: float = 0.0
    cells: int = 0
    used: int = 0
    tokens: int = 0
    """Tokens of the rows; a shared prompt counts for each row."""

    def __add__(self, other: _Part) -> _Part:
        return _Part(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def over(self, ranks: Ranks, device: torch.device) -> _Part:
        """The sums over all ranks."""
        if ranks.size == 1:
            return self
        plain = ("loss", "entropy", "cells", "used", "tokens")
        totals = ranks.total([getattr(self, name) for name in plain], device)
        return _Part(
            **dict(zip(plain, totals, strict=True)),  # pyright: ignore[reportArgumentType]
            sums=_over(self.sums, ranks, device),
            mismatch=_over(self.mismatch, ranks, device),
        )


def _over(sums: TokenSums, ranks: Ranks, device: torch.device) -> TokenSums:
    *added, largest = astuple(sums)
    totals = ranks.total(added, device)
    names = [f.name for f in fields(TokenSums)]
    values = [
        int(total) if name.startswith("num_") else total
        for name, total in zip(names[:-1], totals, strict=True)
    ]
    named: dict[str, Any] = dict(zip(names, [*values, ranks.largest(largest, device)], strict=True))
    return TokenSums(**named)


def _flat(logprobs: Sequence[Sequence[float]], layout: MicroBatch, like: torch.Tensor) -> torch.Tensor:
    """Log-probs per row as a flat tensor over the sampled tokens of a micro-batch, in the order of its rows."""
    flat = [value for index in layout.rows for value in logprobs[index]]
    return torch.tensor(flat, dtype=like.dtype, device=like.device)


def _temperature(rows: Sequence[Row]) -> float:
    """The common sampling temperature of a batch; log-probs use it (public fault B13)."""
    temperatures = {row.temperature for row in rows}
    if len(temperatures) != 1:
        raise ValueError(f"rows of one update were sampled at different temperatures: {sorted(temperatures)}")
    return temperatures.pop()
