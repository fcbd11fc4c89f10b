"""`score_batch`: runs one micro-batch through the model, from ids to log-probs and entropies of the sampled tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from trainer.model import head_weight
from trainer.update.logprobs import TokenScores, TokenTable, token_scores, token_table
from trainer.update.micro_batches import MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Compute = Literal["float32", "bfloat16"]


def computing(compute: Compute, device: torch.device) -> torch.autocast:
    """Context of the passes of one update: matrix products in `compute`, with weights cast once for all of them.

    Master weights, norms, sums and the optimizer stay in float32. Leave the context before the weights change.
    """
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=compute == "bfloat16")


def hidden_states(model: PreTrainedModel, batch: MicroBatch) -> Tensor:
    """Last hidden states at the cells that predict a sampled token, [S, H].

    Padded rows are stacked with padding on the right, and attention is causal, so no mask is needed (public fault
    B26). Concatenated rows require attention over spans, which isolates them (B27).
    """
    device = model.device
    ids = torch.from_numpy(batch.ids).to(device)
    packed: dict[str, Any] = {}
    if batch.spans:
        positions = torch.from_numpy(batch.position_ids).to(device)
        packed = {"position_ids": positions, "spans": batch.spans}
    if bool(batch.spans) is not (model.config._attn_implementation == "spans"):
        raise ValueError(
            "packed rows need a model loaded for attention over spans, padded ones a model without; else rows would "
            "attend to each other (B27)"
        )
    hidden = model.base_model(input_ids=ids, use_cache=False, **packed).last_hidden_state
    return hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(batch.source_S).to(device)]


def score_batch(
    model: PreTrainedModel,
    batch: MicroBatch,
    temperature: float,
    *,
    entropy_grad: bool = False,
) -> TokenScores:
    """Log-prob and entropy of every sampled token; the log-prob with gradient, the entropy on request."""
    targets = torch.from_numpy(batch.target_S).to(model.device)
    hidden_SH = _for_head(hidden_states(model, batch))
    return token_scores(hidden_SH, head_weight(model), targets, temperature, entropy_grad=entropy_grad)


@torch.inference_mode()
def table_batch(model: PreTrainedModel, batch: MicroBatch, temperature: float) -> TokenTable:
    """Log-prob, entropy and rank of every sampled token, without gradient."""
    targets = torch.from_numpy(batch.target_S).to(model.device)
    return token_table(_for_head(hidden_states(model, batch)), head_weight(model), targets, temperature)


def _for_head(hidden_SH: Tensor) -> Tensor:
    """Cast hidden states for the head to half precision if products use it; sums stay in float32."""
    if torch.is_autocast_enabled(hidden_SH.device.type):
        return hidden_SH.to(torch.get_autocast_dtype(hidden_SH.device.type))
    return hidden_SH
