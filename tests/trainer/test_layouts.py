"""Packed, padded and one row at a time through a real model: equal log-probs, equal loss, equal gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from config.objective import Normalisation
from tests.trainer.tiny_models import VOCAB, tiny_model
from trainer.model import head_weight
from trainer.update.logprobs import token_scores
from trainer.update.loss import Clip, clipped_loss, row_weights
from trainer.update.micro_batches import MicroBatch, pack, packed_schedule, pad, padded_schedule
from trainer.update.training_rows import Row

LENGTHS = [5, 17, 9, 12, 3, 14, 8, 6]


def rows() -> list[Row]:
    """Ragged rows of two groups with masked stretches, and a second look at old log-probs that differ."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for number, length in enumerate(LENGTHS):
        ids = torch.randint(VOCAB, (length,), generator=generator).tolist()
        mask = [t >= 2 and t % 5 != 4 for t in range(length)]
        made.append(
            Row(
                ids=ids,
                mask=mask,
                logprob=[-3.5 - 0.1 * (t % 3) if on else 0.0 for t, on in enumerate(mask)],
                advantage=[1.0, -0.5, 0.7, -1.2][number % 4],
                group="ab"[number % 2],
            )
        )
    return made


def hidden_states(model: PreTrainedModel, batch: MicroBatch) -> Tensor:
    """Positions that begin again at 0 make transformers mask packed rows from each other (fault B27)."""
    output = model.base_model(
        input_ids=torch.from_numpy(batch.ids),
        position_ids=torch.from_numpy(batch.position_ids),
        use_cache=False,
    )
    return output.last_hidden_state.reshape(-1, model.config.hidden_size)[torch.from_numpy(batch.source_S)]


def loss_and_gradient(layout: str, dtype: torch.dtype) -> tuple[float, Tensor, list[float]]:
    """Accumulated over micro-batches; old log-probs are those of the rows, so that the clip acts."""
    model, batch = tiny_model(), rows()
    if dtype is torch.float64:
        model.double()
    lengths = [len(row.ids) for row in batch]
    if layout == "packed":
        micro_batches = [pack(batch, part) for part in packed_schedule(lengths, 30).micro_batches]
    elif layout == "packed in one":
        micro_batches = [pack(batch, range(len(batch)))]
    elif layout == "padded":
        micro_batches = [pad(batch, part) for part in padded_schedule(lengths, 40, 0.3).micro_batches]
    else:
        micro_batches = [pack(batch, [index]) for index in range(len(batch))]
    weights = row_weights(
        Normalisation.GLOBAL_TOKENS, [sum(row.mask) for row in batch], [row.group for row in batch]
    )
    total, logprobs = 0.0, {}
    for micro_batch in micro_batches:
        head = head_weight(model)
        scores = token_scores(hidden_states(model, micro_batch), head, torch.from_numpy(micro_batch.target_S))
        row = torch.from_numpy(micro_batch.row_S)
        loss, _ = clipped_loss(
            scores.logprob_S,
            torch.from_numpy(micro_batch.behaviour_S).to(dtype),
            torch.from_numpy(micro_batch.advantage_S).to(dtype),
            torch.tensor(weights, dtype=dtype)[row],
            torch.ones_like(row, dtype=torch.bool),
            Clip(),
        )
        loss.backward()
        total += loss.item()
        for index in micro_batch.rows:
            logprobs[index] = scores.logprob_S[row == index].tolist()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return total, gradient, [value for index in sorted(logprobs) for value in logprobs[index]]


@pytest.mark.parametrize("layout", ["packed", "packed in one", "padded"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_layouts_give_the_gradient_of_rows_alone(layout: str, dtype: torch.dtype, tolerance: float) -> None:
    loss, gradient, logprobs = loss_and_gradient(layout, dtype)
    alone_loss, alone_gradient, alone_logprobs = loss_and_gradient("one by one", dtype)
    assert (gradient - alone_gradient).norm() <= tolerance * alone_gradient.norm()
    assert alone_gradient.norm() > 0
    assert loss == pytest.approx(alone_loss, rel=tolerance)
    assert logprobs == pytest.approx(alone_logprobs, abs=tolerance)
