"""`Decoder`: incremental decoding of Llama, Qwen2 and Qwen3 weights in few, large kernels.

Training always uses transformers' modules; the decoder is for generation only. It differs from them as follows: q, k, v
and gate, up are one matrix each; weights are stored [in, out], because a plain product is up to twice as fast as
`linear` at these sizes on a CPU; the halves that rotary embedding pairs are interleaved, so a rotation is one complex
product; q contains the attention scale. These changes affect scores by rounding only, and `check` compares the decoder
with the transformers module before any weight is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from records.errors import ConfigError
from trainer.engines.kv_cache import KVCache
from trainer.weights import one_line, read_model

Ids = Sequence[int] | NDArray[np.int64]

TOLERANCE = 1e-4
"""Largest difference from transformers' log-probs (nats), for scores up to `_USUAL_SCORE`.

Rounding alone reached 1.4e-5 on one of six SFT checkpoints of tiny; an epsilon of 1e-5 in the norms gives 9e-4.
"""
_USUAL_SCORE = 10.0
"""Rounding in float32 grows with the scores; above this size so does the tolerance."""

_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_STATIC_ROPE = ("default", "linear", "llama3", "yarn")
_ROWS_PER_CHUNK = 128
"""Rows that attend together: each chunk stops at its longest row, and its scores stay in the CPU cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of one model."""

    vocab: int
    hidden: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    eps: float

    @classmethod
    def from_config(cls, config: PreTrainedConfig) -> Shape:
        """Read a transformers config. Raises ValueError with the feature that this decoder does not support."""
        if config.model_type not in _ARCHITECTURES:
            raise ValueError(
                f"model_type {config.model_type!r}: the local engine decodes {', '.join(_ARCHITECTURES)}; "
                "use the vLLM engine for others"
            )
        if getattr(config, "use_sliding_window", False):
            raise ValueError("use_sliding_window: the local engine has full attention only")
        if config.hidden_act != "silu":
            raise ValueError(f"hidden_act {config.hidden_act!r}: the local engine supports silu only")
        if getattr(config, "mlp_bias", False):
            raise ValueError("mlp_bias: the local engine has no bias in the feed-forward layers")
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls(
            vocab=config.vocab_size,
            hidden=config.hidden_size,
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=head_dim,
            eps=config.rms_norm_eps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights of one layer. Matrices are [in, out]."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    qk_norm: Tensor | None
    """[heads + kv heads, head dim] (Qwen3); the attention scale is in its q part."""
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Decoder:
    """One model's weights, arranged for decoding. Immutable: new weights make a new decoder."""

    def __init__(
        self,
        state: Mapping[str, Tensor],
        config: PreTrainedConfig,
        *,
        max_len: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.shape = Shape.from_config(config)
        self.max_len = max_len
        self.device = torch.device(device)
        self.dtype = dtype
        weights = _Weights(state, self.shape, self.device, dtype)
        self._embedding = weights.take("model.embed_tokens.weight")
        self._layers = [weights.layer(i) for i in range(self.shape.num_layers)]
        self._norm = weights.take("model.norm.weight")
        tied = getattr(config, "tie_word_embeddings", False)
        self._head = weights.matrix("model.embed_tokens.weight" if tied else "lm_head.weight")
        self._rotation_LD = _rotation(config, max_len, self.device)
        self._qk_heads = self.shape.num_heads + self.shape.num_kv_heads

    @classmethod
    def from_folder(
        cls, folder: Path, *, max_len: int, device: torch.device | str, dtype: torch.dtype
    ) -> Decoder:
        """Load a whole Hugging Face folder and check it against transformers. Raises ConfigError on failure."""
        try:
            if (folder / "config.json").is_file():  # before gigabytes are read
                Shape.from_config(AutoConfig.from_pretrained(folder, local_files_only=True))
            model = read_model(folder, dtype=torch.float32)
            return cls.from_model(model, max_len=max_len, device=device, dtype=dtype)
        except ConfigError:
            raise
        except Exception as error:  # any exception: every one means that the folder cannot be read
            raise ConfigError(f"{folder}: {one_line(error)}") from None

    @classmethod
    def from_model(
        cls, model: PreTrainedModel, *, max_len: int, device: torch.device | str, dtype: torch.dtype
    ) -> Decoder:
        """Take the weights of a transformers module, in float32, and check against it."""
        state = model.state_dict()
        check(cls(state, model.config, max_len=_CHECK_LEN), model)
        return cls(state, model.config, max_len=max_len, device=device, dtype=dtype)

    @classmethod
    def from_state_dict(
        cls,
        state: Mapping[str, Tensor],
        config: PreTrainedConfig,
        *,
        max_len: int,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> Decoder:
        """Take a transformers state dict and check it against its module."""
        Shape.from_config(config)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        missing, unexpected = model.load_state_dict(state, strict=False)
        tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
        if set(missing) - tied or unexpected:
            raise ValueError(
                f"the state dict does not fit {config.model_type}: missing {sorted(set(missing) - tied)}, "
                f"unexpected {sorted(unexpected)}"
            )
        return cls.from_model(model, max_len=max_len, device=device, dtype=dtype)

    def allocate(self) -> KVCache:
        """An empty cache of this model's shape."""
        return KVCache(
            num_layers=self.shape.num_layers,
            num_kv_heads=self.shape.num_kv_heads,
            head_dim=self.shape.head_dim,
            max_len=self.max_len,
            device=self.device,
            dtype=self.dtype,
        )

    @torch.inference_mode()
    def prefill(
        self, cache: KVCache, rows: Sequence[int], starts: Sequence[int], suffixes: Sequence[Ids]
    ) -> None:
        """Cache the keys and values of `suffixes[i]`, which continues row `rows[i]` at position `starts[i]`.

        Computes no scores: the last token of a context is fed to `step`. Rows are padded on the right to
        the longest suffix; a real token never sees padding, which comes later (public fault B26).
        """
        ids_NS, length_N = _pad(suffixes, self.device)
        rows_N = torch.tensor(rows, device=self.device)
        position_NS = torch.tensor(starts, device=self.device)[:, None] + torch.arange(
            ids_NS.shape[1], device=self.device
        )
        real_NS = torch.arange(ids_NS.shape[1], device=self.device) < length_N[:, None]
        index = cache.flat_index(rows_N[:, None].expand_as(real_NS)[real_NS], position_NS[real_NS])
        key_len = int(max(start + len(s) for start, s in zip(starts, suffixes, strict=True)))
        mask_N1SL = (torch.arange(key_len, device=self.device) <= position_NS[..., None])[:, None]
        rotation_NS = self._rotation_LD[position_NS.clamp(max=self.max_len - 1)]
        x = self._embedding[ids_NS]
        for number, layer in enumerate(self._layers):
            q, k, v = self._project(layer, x, rotation_NS)
            cache.write(number, index, k[real_NS], v[real_NS])
            if number + 1 == len(self._layers):
                return
            keys = cache.kv[number, 0, :, :, :key_len].index_select(0, rows_N)
            values = cache.kv[number, 1, :, :, :key_len].index_select(0, rows_N)
            o = F.scaled_dot_product_attention(
                q.transpose(1, 2), keys, values, attn_mask=mask_N1SL, scale=1.0, enable_gqa=True
            )
            x = self._finish_layer(layer, x, o.transpose(1, 2).flatten(2))

    @torch.inference_mode()
    def step(self, cache: KVCache, tokens_N: Tensor, position_N: Tensor) -> Tensor:
        """Feed one token to each of the first N rows of the cache; return scores [N, V].

        `tokens_N[i]` goes to position `position_N[i]` of row i and attends up to its own position.
        """
        index = cache.flat_index(torch.arange(len(tokens_N), device=self.device), position_N)
        chunks = _chunks(position_N)
        rotation_N = self._rotation_LD[position_N]
        x = self._embedding[tokens_N]
        for number, layer in enumerate(self._layers):
            q, k, v = self._project(layer, x, rotation_N)
            cache.write(number, index, k, v)
            o = [self._attend(cache.kv[number, :, a:b], q[a:b], mask_NL) for a, b, mask_NL in chunks]
            x = self._finish_layer(layer, x, torch.cat(o))
        return F.rms_norm(x, (self.shape.hidden,), self._norm, self.shape.eps) @ self._head

    def _project(self, layer: Layer, x: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q (scaled), k (both rotated) and v, each [..., heads, head dim]."""
        shape = self.shape
        h = F.rms_norm(x, (shape.hidden,), layer.attention_norm, shape.eps)
        qkv = h @ layer.qkv
        if layer.qkv_bias is not None:
            qkv = qkv + layer.qkv_bias
        heads = qkv.unflatten(-1, (-1, shape.head_dim))
        qk, v = heads[..., : self._qk_heads, :], heads[..., self._qk_heads :, :]
        if layer.qk_norm is not None:
            qk = F.rms_norm(qk, (shape.head_dim,), None, shape.eps) * layer.qk_norm
        pairs = torch.view_as_complex(qk.float().unflatten(-1, (-1, 2)))
        qk = torch.view_as_real(pairs * rotation[..., None, :]).flatten(-2).to(x.dtype)
        return qk[..., : shape.num_heads, :], qk[..., shape.num_heads :, :], v

    def _attend(self, kv: Tensor, q: Tensor, mask_NL: Tensor) -> Tensor:
        """Attention of one query per row over its cache: two batched products, no copy of the cache."""
        num_rows, key_len = mask_NL.shape
        shape = self.shape
        per_kv = shape.num_heads // shape.num_kv_heads
        k = kv[0].flatten(0, 1)[:, :key_len]
        v = kv[1].flatten(0, 1)[:, :key_len]
        q = q.reshape(num_rows * shape.num_kv_heads, per_kv, shape.head_dim)
        scores = torch.bmm(q, k.transpose(1, 2)).view(num_rows, shape.num_heads, key_len)
        p = torch.softmax(scores.add_(mask_NL[:, None]), -1)
        return torch.bmm(p.view(-1, per_kv, key_len), v).view(num_rows, -1)

    def _finish_layer(self, layer: Layer, x: Tensor, o: Tensor) -> Tensor:
        x = x + o @ layer.out
        if layer.out_bias is not None:
            x = x + layer.out_bias
        h = F.rms_norm(x, (self.shape.hidden,), layer.mlp_norm, self.shape.eps)
        gate, up = (h @ layer.gate_up).chunk(2, -1)
        return x + (F.silu(gate) * up) @ layer.down


_CHECK_ROWS, _CHECK_LEN = 3, 12


@torch.inference_mode()
def check(decoder: Decoder, model: PreTrainedModel) -> float:
    """Compare next-token log-probs with the transformers module on random ids, prefilled and stepped.

    Returns the largest difference in nats, for log-probs below -1 relative to their size (float32 has seven digits,
    and a trained model scores unlikely tokens at -30). Raises ValueError above `TOLERANCE`.
    """
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(decoder.shape.vocab, (_CHECK_ROWS, _CHECK_LEN), generator=generator)
    training = model.training
    model.eval()
    logits = model(ids.to(model.device)).logits.float().cpu()
    model.train(training)
    expected = logits.log_softmax(-1)
    allowed = TOLERANCE * max(1.0, float(logits.abs().max()) / _USUAL_SCORE)
    half = _CHECK_LEN // 2
    cache = decoder.allocate()
    decoder.prefill(cache, range(_CHECK_ROWS), [0] * _CHECK_ROWS, ids[:, :half].tolist())
    worst = 0.0
    for t in range(half, _CHECK_LEN):
        scores = decoder.step(cache, ids[:, t], torch.full((_CHECK_ROWS,), t))
        difference = (scores.float().log_softmax(-1) - expected[:, t]).abs()
        worst = max(worst, float((difference / expected[:, t].abs().clamp(min=1.0)).max()))
    if not worst <= allowed:
        raise ValueError(
            f"the decoder's log-probs differ from transformers' by {worst:.2e} nats, more than "
            f"{allowed:.0e}: this {model.config.model_type} variant is not decoded rightly; use vLLM"
        )
    return worst


def _rotation(config: PreTrainedConfig, max_len: int, device: torch.device) -> Tensor:
    """Unit complex numbers [max_len, head dim / 2] that rotate a pair at each position."""
    kind = config.rope_parameters["rope_type"]
    if kind not in _STATIC_ROPE:
        raise ValueError(f"rope_type {kind!r}: the local engine supports {', '.join(_STATIC_ROPE)}")
    if kind == "default":
        head_dim = Shape.from_config(config).head_dim
        exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
        frequency, scale = 1.0 / config.rope_parameters["rope_theta"] ** exponent, 1.0
    else:
        frequency, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    angle = torch.outer(torch.arange(max_len).float(), frequency.float())
    return torch.polar(torch.full_like(angle, scale), angle).to(device)


def _chunks(position_N: Tensor) -> list[tuple[int, int, Tensor]]:
    """Row ranges and their additive masks [rows, longest + 1]: 0 where a key is visible, -inf elsewhere."""
    chunks = []
    for first in range(0, len(position_N), _ROWS_PER_CHUNK):
        part = position_N[first : first + _ROWS_PER_CHUNK]
        key_len = int(part.max()) + 1
        hidden = torch.arange(key_len, device=part.device) > part[:, None]
        mask = torch.zeros(hidden.shape, device=part.device).masked_fill_(hidden, float("-inf"))
        chunks.append((first, first + len(part), mask))
    return chunks


def _pad(suffixes: Sequence[Ids], device: torch.device) -> tuple[Tensor, Tensor]:
    length_N = torch.tensor([len(s) for s in suffixes])
    ids_NS = torch.zeros(len(suffixes), int(length_N.max()), dtype=torch.int64)
    for row, suffix in enumerate(suffixes):
        ids_NS[row, : len(suffix)] = torch.as_tensor(suffix)
    return ids_NS.to(device), length_N.to(device)


class _Weights:
    """Takes tensors from a transformers state dict in the decoder's layout."""

    def __init__(
        self, state: Mapping[str, Tensor], shape: Shape, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._state, self._shape = state, shape
        self._device, self._dtype = device, dtype
        half = shape.head_dim // 2
        self._interleave_D = torch.stack([torch.arange(half), torch.arange(half) + half], -1).flatten()

    def raw(self, name: str) -> Tensor:
        if name not in self._state:
            raise ValueError(f"weight {name} is missing from the state dict")
        return self._state[name].detach().to(device="cpu", dtype=torch.float32)

    def place(self, tensor: Tensor) -> Tensor:
        # A clone, never a view: the trainer keeps changing its tensors in place.
        return tensor.to(device=self._device, dtype=self._dtype, copy=True).contiguous()

    def take(self, name: str) -> Tensor:
        return self.place(self.raw(name))

    def matrix(self, name: str) -> Tensor:
        return self.place(self.raw(name).t())

    def layer(self, number: int) -> Layer:
        prefix = f"model.layers.{number}."
        gate_up = [self.raw(f"{prefix}mlp.{part}_proj.weight") for part in ("gate", "up")]
        normed = f"{prefix}self_attn.q_norm.weight" in self._state
        biased = f"{prefix}self_attn.q_proj.bias" in self._state
        out_bias = f"{prefix}self_attn.o_proj.bias"
        return Layer(
            attention_norm=self.take(f"{prefix}input_layernorm.weight"),
            qkv=self.place(self._qkv(prefix, "weight", scaled=not normed).t()),
            qkv_bias=self.place(self._qkv(prefix, "bias", scaled=not normed)) if biased else None,
            qk_norm=self._qk_norm(prefix) if normed else None,
            out=self.matrix(f"{prefix}self_attn.o_proj.weight"),
            out_bias=self.take(out_bias) if out_bias in self._state else None,
            mlp_norm=self.take(f"{prefix}post_attention_layernorm.weight"),
            gate_up=self.place(torch.cat(gate_up).t()),
            down=self.matrix(f"{prefix}mlp.down_proj.weight"),
        )

    def _qkv(self, prefix: str, kind: str, *, scaled: bool) -> Tensor:
        """q, k, v stacked along their outputs: heads interleaved, q scaled unless a norm follows."""
        q, k, v = (self.raw(f"{prefix}self_attn.{part}_proj.{kind}") for part in "qkv")
        q, k = (self._interleave(part) for part in (q, k))
        return torch.cat([q * self._shape.head_dim**-0.5 if scaled else q, k, v])

    def _interleave(self, tensor: Tensor) -> Tensor:
        heads = tensor.unflatten(0, (-1, self._shape.head_dim))
        return heads[:, self._interleave_D].flatten(0, 1)

    def _qk_norm(self, prefix: str) -> Tensor:
        q, k = (self._interleave(self.raw(f"{prefix}self_attn.{part}_norm.weight")) for part in "qk")
        q = (q * self._shape.head_dim**-0.5).expand(self._shape.num_heads, -1)
        return self.place(torch.cat([q, k.expand(self._shape.num_kv_heads, -1)]))
