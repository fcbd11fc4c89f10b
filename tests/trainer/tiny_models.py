"""Random tiny models of every architecture that the local engine decodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB = 61
ARCHITECTURES = ("qwen3", "qwen2", "llama")


def tiny_model(architecture: str = "qwen3", *, seed: int = 0, spread: float = 0.05) -> PreTrainedModel:
    """A random float32 module in which every tensor, norms and biases included, differs from its initial value."""
    sizes: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
    }
    torch.manual_seed(seed)
    if architecture == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=16, tie_word_embeddings=True))
    elif architecture == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**sizes, tie_word_embeddings=True))
    else:
        model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False, attention_bias=True))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += spread * torch.randn_like(parameter)
    return model.eval()


def teacher_forced(model: PreTrainedModel, ids: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """Log-prob of each id after the first, by one pass of the transformers module."""
    with torch.inference_mode():
        scores = model(torch.tensor([ids])).logits[0, :-1].float() / temperature
    return scores.log_softmax(-1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
