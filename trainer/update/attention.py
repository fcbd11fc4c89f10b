"""`span_attention`: attention over concatenated rows, as one more attention kind of `transformers`.

There is no padding, and no row attends to another. A packed micro-batch is cut into spans. The queries of a span attend
to some earlier cells (the prompt that the rows of a group share) and causally to their own span. Projections, norms and
feed-forward layers run over all cells at once; only the attention runs span by span.

On a GPU, variable-length kernels take the same layout without shared prompts (`MicroBatch.cu_seqlens`).

Suffixes: T cells of the micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from trainer.update.micro_batches import Span

SPANS = "spans"
"""Name of this attention kind for `model.set_attn_implementation`."""


def span_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    spans: Sequence[Span] | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer; arguments as `transformers` calls it.

    Args:
        module: unused.
        query: [1, heads, T, head dimension].
        key: [1, key-value heads, T, head dimension].
        value: as `key`.
        attention_mask: None.
        scaling: factor of the scores.
        dropout: 0; training uses none (public fault B16).
        spans: spans of this micro-batch, which cover every cell once. None: one causal span per row of the batch.

    Returns:
        [1, T, heads, head dimension] and no weights.

    Raises:
        ValueError: a mask or dropout, which span attention does not support.

    Two cells in separate spans each attend only to themselves:

    >>> one = torch.tensor([1.0, 2.0]).view(1, 1, 2, 1)
    >>> span_attention(None, one, one, one, None, spans=[Span(0, 1), Span(1, 2)])[0].flatten().tolist()
    [1.0, 2.0]
    """
    if attention_mask is not None or dropout:
        raise ValueError("attention over spans takes neither a mask nor dropout")
    grouped = query.shape[1] != key.shape[1]
    if spans is None:
        out = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=grouped
        )
        return out.transpose(1, 2).contiguous(), None
    parts = []
    for span in spans:
        own, num_before = slice(span.start, span.end), span.before_end - span.before_start
        queries, keys, values, mask = query[:, :, own], key[:, :, own], value[:, :, own], None
        if num_before:
            before = slice(span.before_start, span.before_end)
            keys, values = (
                torch.cat([key[:, :, before], keys], 2),
                torch.cat([value[:, :, before], values], 2),
            )
            if num_before <= span.end - span.start:
                # A second query of the shared cells is cheaper than a mask, which computes every pair.
                queries = torch.cat([query[:, :, before], queries], 2)
            else:
                mask = lower_right(span.end - span.start, num_before, query.device)
        part = scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=grouped
        )
        parts.append(part[:, :, -(span.end - span.start) :])
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def lower_right(num_own: int, num_before: int, device: torch.device) -> Tensor:
    """Bool mask [own, before + own]: all cells before, and the own cells up to the query.

    >>> lower_right(2, 1, torch.device("cpu")).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(num_own, num_before + num_own, dtype=torch.bool, device=device).tril(num_before)


def _no_mask(*_: Any, **__: Any) -> None:
    """No mask: the spans decide which cells attend to which."""


AttentionInterface.register(SPANS, span_attention)
AttentionMaskInterface.register(SPANS, _no_mask)  # pyright: ignore[reportArgumentType]  # typed for masks only
