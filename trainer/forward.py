"""One micro-batch through the model: from ids to log-probs and entropies of the sampled tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainer.logprobs import TokenScores, TokenTable, token_scores, token_table
from trainer.model import head_weight
from trainer.pack import MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def hidden_states(model: PreTrainedModel, batch: MicroBatch) -> Tensor:
    """Last hidden states at the cells that predict a sampled token, [S, H].

    Rows are padded on the right and attention is causal, so no mask is needed (public fault B26).
    """
    if len(batch.rows) > batch.ids.shape[0]:
        raise ValueError(
            "packed rows would attend to each other here; lay them out with trainer.pack.pad (B27)"
        )
    device = model.device
    ids = torch.from_numpy(batch.ids).to(device)
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(batch.source_S).to(device)]


def score_batch(model: PreTrainedModel, batch: MicroBatch, temperature: float) -> TokenScores:
    """Log-prob and entropy of every sampled token, with gradient."""
    targets = torch.from_numpy(batch.target_S).to(model.device)
    return token_scores(hidden_states(model, batch), head_weight(model), targets, temperature)


@torch.inference_mode()
def table_batch(model: PreTrainedModel, batch: MicroBatch, temperature: float) -> TokenTable:
    """Log-prob, entropy and rank of every sampled token, without gradient."""
    targets = torch.from_numpy(batch.target_S).to(model.device)
    return token_table(hidden_states(model, batch), head_weight(model), targets, temperature)
