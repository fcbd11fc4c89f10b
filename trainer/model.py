"""The policy as a `transformers` module: `random_model`, `load_model`, `save_model`.

Weights are float32 master weights for every compute type (public fault B20).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging as transformers_logging

from config.model import ModelSection, RuntimeSection
from records.errors import ConfigError
from records.usage import end_of_imports
from trainer.weights import read_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Progress bars write carriage returns into logs.
transformers_logging.disable_progress_bar()


INTEROP_THREADS = 1
"""torch threads between operations, of which a job runs one at a time."""
ROPE_THETA = 10000.0
"""Base of the rotary frequencies of a random model: Qwen3's default in `transformers`."""


def use_threads(runtime: RuntimeSection) -> None:
    """Fix both thread counts of torch: they decide the order of additions, hence the bits. Call this first."""
    end_of_imports()
    torch.set_num_threads(runtime.threads)
    if torch.get_num_interop_threads() != INTEROP_THREADS:
        torch.set_num_interop_threads(INTEROP_THREADS)
    torch.use_deterministic_algorithms(runtime.deterministic)


def check_device(runtime: RuntimeSection) -> torch.device:
    """Return the configured device. Raises ConfigError if it is not available."""
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("runtime.device = cuda, but torch sees no GPU here; set runtime.device to cpu")
    return torch.device(runtime.device)


def random_model(section: ModelSection, vocab_size: int, end_id: int, pad_id: int) -> Qwen3ForCausalLM:
    """Initialise a Qwen3 of the configured sizes from `section.seed`."""
    config = Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=section.hidden_size,
        intermediate_size=section.ffn_size,
        num_hidden_layers=section.layers,
        num_attention_heads=section.heads,
        num_key_value_heads=section.kv_heads,
        head_dim=section.head_dim,
        max_position_embeddings=section.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=pad_id,
        attention_dropout=0.0,
    )
    torch.manual_seed(section.seed)
    return Qwen3ForCausalLM(config)


def load_model(folder: Path, device: torch.device) -> PreTrainedModel:
    """Read a complete checkpoint folder in float32, without dropout (public fault B16); see `weights.read_model`."""
    model = read_model(folder, dtype=torch.float32, attn_implementation="sdpa")
    model.to(device)  # pyright: ignore[reportArgumentType]  # its wrapper hides the signature
    return model.eval()


def checkpoint_activations(model: PreTrainedModel) -> None:
    """Keep one activation per layer and recompute the others in the backward pass: equal gradients, less memory.

    `transformers` couples this to training mode, which also enables dropout (public fault B16). Only the layers get
    the training flag; their submodules stay in evaluation mode.
    """
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True


def head_weight(model: PreTrainedModel) -> torch.Tensor:
    """Weight of the language-model head, [V, H]."""
    head = model.get_output_embeddings()
    assert isinstance(head, torch.nn.Linear), "causal language models end in a linear head"
    return head.weight


def save_model(model: PreTrainedModel, folder: Path) -> None:
    """Write config and safetensors as `transformers` and vLLM read them."""
    model.save_pretrained(folder, safe_serialization=True)
