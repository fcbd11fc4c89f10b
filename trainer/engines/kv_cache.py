"""`KVCache`: keys and values of every resident row, one row per session.

A row is a fixed slot of `max_len` positions, so decoding reads a plain view without a gather. Memory is zero-filled,
hence finite: masked positions may hold any finite value, never NaN. Pages without a token take no memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_FIRST_BYTES = {"cpu": 1 << 30}
"""Size of a new cache if fresh memory takes no space until it is used."""
_FIRST_BYTES_ELSEWHERE = 1 << 28
_MOST_FIRST_ROWS = 512


class KVCache:
    """Tensor of shape [layers, 2, rows, kv heads, max_len, head dim]; index 0 of axis 1 is keys, 1 is values."""

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        max_len: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        row_bytes = num_layers * 2 * num_kv_heads * max_len * head_dim * dtype.itemsize
        first_bytes = _FIRST_BYTES.get(device.type, _FIRST_BYTES_ELSEWHERE)
        num_rows = max(1, min(_MOST_FIRST_ROWS, first_bytes // row_bytes))
        self.kv = _zeros((num_layers, 2, num_rows, num_kv_heads, max_len, head_dim), device, dtype)

    @property
    def num_rows(self) -> int:
        return self.kv.shape[2]

    @property
    def max_len(self) -> int:
        return self.kv.shape[4]

    def grow(self, num_rows: int) -> None:
        """Make room for at least `num_rows` rows; cached values stay."""
        if num_rows <= self.num_rows:
            return
        shape = list(self.kv.shape)
        shape[2] = max(num_rows, 2 * self.num_rows)
        larger = _zeros(tuple(shape), self.kv.device, self.kv.dtype)
        larger[:, :, : self.num_rows] = self.kv
        self.kv = larger

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """Copy the first `length` positions of one row to others."""
        for target in targets:
            self.kv[:, :, target, :, :length] = self.kv[:, :, source, :, :length]

    def swap(self, left: int, right: int, length: int) -> None:
        """Exchange the first `length` positions of two rows."""
        kept = self.kv[:, :, left, :, :length].clone()
        self.kv[:, :, left, :, :length] = self.kv[:, :, right, :, :length]
        self.kv[:, :, right, :, :length] = kept

    def flat_index(self, rows_N: Tensor, positions_N: Tensor) -> Tensor:
        """Index of (row, kv head, position) in `flat(layer)`, shape [N * kv heads], for `write`."""
        num_heads = self.kv.shape[3]
        heads = torch.arange(num_heads, device=self.kv.device)
        return ((rows_N[:, None] * num_heads + heads) * self.max_len + positions_N[:, None]).flatten()

    def write(self, layer: int, index: Tensor, k: Tensor, v: Tensor) -> None:
        """Store keys and values [N, kv heads, head dim] at `index` (from `flat_index`)."""
        head_dim = self.kv.shape[5]
        keys, values = self.kv[layer]
        keys.view(-1, head_dim).index_copy_(0, index, k.reshape(-1, head_dim))
        values.view(-1, head_dim).index_copy_(0, index, v.reshape(-1, head_dim))


def _zeros(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Zeros; on a CPU through numpy, whose fresh pages stay unmapped until written (torch fills them all)."""
    if device.type == "cpu" and dtype == torch.float32:
        return torch.from_numpy(np.zeros(shape, dtype=np.float32))
    return torch.zeros(shape, device=device, dtype=dtype)
