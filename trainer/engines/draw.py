"""`sample`: draws the next token of each row by one uniform number from the row's seed and step.

The stream of a row never depends on its batch (public fault B30: the same seed in every replica gave duplicate
samples). Log-probs are those of the full softmax at temperature T, which training recomputes. For evaluation only,
`top_p` below 1 narrows the draw and leaves log-probs unchanged (public fault B14: engines that renormalise leak
log(mass) into the ratio).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MASK_64 = (1 << 64) - 1


def seed_words(seeds: Sequence[int]) -> NDArray[np.uint64]:
    """Seeds as 64-bit words; longer or negative ones keep their lowest 64 bits."""
    return np.array([seed & _MASK_64 for seed in seeds], dtype=np.uint64)


def uniforms(seed_N: NDArray[np.uint64], step_N: NDArray[np.int64]) -> NDArray[np.float64]:
    """One number in [0, 1) per row: splitmix64 of (seed, step), counter-based, so any order gives the same numbers.

    The seed is mixed before the counter is added; neighbouring seeds therefore share no sequence.

    >>> alone = uniforms(seed_words([7]), np.array([3]))
    >>> bool(alone[0] == uniforms(seed_words([1, 7]), np.array([3, 3]))[1])
    True
    """
    word = _mix(_mix(seed_N + _GAMMA) + (step_N.astype(np.uint64) + np.uint64(1)) * _GAMMA)
    return (word >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of splitmix64 (Steele, Lea, Flood 2014)."""
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return word ^ (word >> np.uint64(31))


def sample(
    logits_NV: Tensor, uniform_N: Tensor, *, temperature: float, top_p: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        logits_NV: raw scores; converted to float32.
        uniform_N: numbers in [0, 1).
        temperature: 0 takes the most likely token, with log-probs at temperature 1.
        top_p: draw only among the most likely tokens that together have this mass.

    Returns:
        tokens_N (int64) and logprob_N: log softmax(logits / T) of the drawn token, nats, float32.
    """
    logits_NV = logits_NV.float()
    if temperature not in (0.0, 1.0):
        logits_NV = logits_NV / temperature
    shifted_NV = logits_NV - logits_NV.amax(-1, keepdim=True)
    weight_NV = shifted_NV.exp()
    log_total_N = weight_NV.sum(-1).log()
    if temperature == 0.0:
        tokens_N = logits_NV.argmax(-1)
    elif top_p < 1.0:
        order_NV = weight_NV.argsort(dim=-1, descending=True, stable=True)
        sorted_NV = weight_NV.gather(-1, order_NV)
        before_NV = sorted_NV.cumsum(-1) - sorted_NV
        sorted_NV = sorted_NV.masked_fill(before_NV >= top_p * sorted_NV.sum(-1, keepdim=True), 0.0)
        tokens_N = order_NV.gather(-1, _invert(sorted_NV, uniform_N)[:, None])[:, 0]
    else:
        tokens_N = _invert(weight_NV, uniform_N)
    return tokens_N, shifted_NV.gather(-1, tokens_N[:, None])[:, 0] - log_total_N


def _invert(weight_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """First index whose cumulative weight exceeds uniform * total; its own weight is above 0.

    >>> _invert(torch.tensor([[0.0, 1.0, 0.0, 3.0]] * 3), torch.tensor([0.0, 0.2, 0.9]))
    tensor([1, 1, 3])
    """
    cumulative_NV = weight_NV.cumsum(-1)
    total_N = cumulative_NV[:, -1]
    below_N = torch.nextafter(total_N, torch.zeros_like(total_N))
    target_N = torch.minimum((uniform_N * total_N).to(total_N.dtype), below_N)
    return torch.searchsorted(cumulative_NV, target_N[:, None], right=True)[:, 0]
