"""`Needs`: what a configuration requires of a machine, by arithmetic on its own sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.model import Config, ModelSection
from records.files import read_json

FLOP_S = 1.5e14
"""Assumed training rate of one GPU in FLOP/s: 40% of what an 80 GB GPU reaches in bfloat16 products, rounded."""
_STATE_BYTES = 16
"""Of one parameter in training: float32 weight, gradient and AdamW's two moments."""
_SAVED_BYTES = 12
"""Of one parameter in a saved state: weight and two moments."""
_ROW_BYTES = 8
"""Of one token in a trajectory file: id, mask, log-prob, compressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A model's size; `kv_bytes` of one cached token in float32 is None where only the name is known."""

    parameters: float
    kv_bytes: int | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Upper bounds, for a person who decides whether to start."""

    size: Size | None
    rollouts: int
    sampled_tokens: int
    """If every rollout used up its budget."""
    trained_tokens: int
    memory_bytes: float | None
    """Of one trainer without activations, or of the weights of one engine where nothing is trained."""
    kv_bytes: float | None
    """Cache of one engine."""
    disk_bytes: float | None

    @classmethod
    def of(cls, config: Config, *, trains: bool = True) -> Needs:
        """Sum over the RL stages of a configuration; SFT and evaluation are left out of the tokens.

        Args:
            config: of the run.
            trains: False for a preset that only evaluates the base.
        """
        objective = config.objective
        rollouts = sampled = trained = num_stages = 0
        for _, stage in config.rl.named() if trains else ():
            num_stages += 1
            num = stage.steps * objective.prompts_per_step * objective.group_size
            rollouts += num * objective.roc.oversample
            sampled += num * objective.roc.oversample * stage.max_response
            trained += num * (stage.max_response + config.rollout.max_prompt)
        size = size_of(config.model)
        on_cpu = config.runtime.device == "cpu"
        per_token = None if size is None or size.kv_bytes is None else size.kv_bytes / (1 if on_cpu else 2)
        kept = sampled if config.rollout.keep == "all" else sampled // objective.roc.oversample
        held = _STATE_BYTES if trains else 4 if on_cpu else 2
        # Checkpoints of base, SFT and every stage, and two states of the stage under way; else the base alone.
        saved = _SAVED_BYTES * (num_stages + 2 + 2) if trains else 4
        return cls(
            size=size,
            rollouts=rollouts,
            sampled_tokens=sampled,
            trained_tokens=trained,
            memory_bytes=None if size is None else held * size.parameters,
            kv_bytes=None if per_token is None else per_token * config.rollout.kv_tokens,
            disk_bytes=None if size is None else saved * size.parameters + _ROW_BYTES * kept,
        )

    @property
    def gpu_hours(self) -> float | None:
        """Of the training passes alone (6 FLOPs per parameter and token); nobody measured decoding on a GPU."""
        return None if self.size is None else 6 * self.size.parameters * self.trained_tokens / FLOP_S / 3600

    def lines(self) -> Iterator[str]:
        """For a reader."""
        yield f"RL: {self.rollouts:,} rollouts, at most {self.sampled_tokens:,} sampled tokens"
        if self.size is None:
            yield "size of the model: unknown without its folder"
            return
        yield f"model: {self.size.parameters / 1e6:,.1f} M parameters ({self.size.source})"
        yield f"memory of weights and optimizer, without activations: {gib(self.memory_bytes)}"
        yield f"key-value cache of one engine: {gib(self.kv_bytes)}"
        yield f"disk of a run: {gib(self.disk_bytes)}"
        yield (
            f"training passes of RL at {FLOP_S:.1e} FLOP/s: {self.gpu_hours or 0.0:,.1f} GPU-hours; decoding comes on "
            "top and was never measured on a GPU"
        )


def gib(size: float | None) -> str:
    """A size for a reader.

    >>> gib(3 * 2**29), gib(None)
    ('1.5 GiB', 'unknown without the folder of the model')
    """
    return "unknown without the folder of the model" if size is None else f"{size / 2**30:,.1f} GiB"


def size_of(model: ModelSection) -> Size | None:
    """From the configured sizes, from config.json of the folder, or from a number such as 1.7B in its name."""
    if model.path is None:
        dims = {
            "vocab_size": model.vocab_size,
            "hidden_size": model.hidden_size,
            "intermediate_size": model.ffn_size,
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "tie_word_embeddings": True,
        }
        return _counted(dims, "random")
    config = Path(model.path) / "config.json"
    if config.is_file():
        return _counted(read_json(config), "config.json")
    parameters = parameters_in(Path(model.path).name)
    return None if parameters is None else Size(parameters=parameters, kv_bytes=None, source="by its name")


def parameters_in(name: str) -> float | None:
    """The number of parameters that a model's name states.

    >>> parameters_in("Qwen3-1.7B-Base"), parameters_in("SmolLM2-135M-Instruct"), parameters_in("mine")
    (1700000000.0, 135000000.0, None)
    """
    found = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)([BM])(?![a-z])", name)
    return None if found is None else float(found[1]) * {"B": 1e9, "M": 1e6}[found[2]]


def _counted(dims: dict[str, Any], source: str) -> Size | None:
    """Weights of a Llama, Qwen2 or Qwen3 decoder without norms and biases; None for another kind of config."""
    try:
        hidden, layers, heads = (
            int(dims[k]) for k in ("hidden_size", "num_hidden_layers", "num_attention_heads")
        )
        head_dim = int(dims.get("head_dim") or hidden // heads)
        kv_heads = int(dims.get("num_key_value_heads") or heads)
        embedding = int(dims["vocab_size"]) * hidden
        block = 2 * hidden * head_dim * (heads + kv_heads) + 3 * hidden * int(dims["intermediate_size"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    parameters = layers * block + embedding * (1 if dims.get("tie_word_embeddings") else 2)
    return Size(parameters=float(parameters), kv_bytes=8 * layers * kv_heads * head_dim, source=source)
