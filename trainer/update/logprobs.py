"""`token_scores`: log-probs and entropy of target tokens from hidden states, without a [T, V] tensor.

The language-model head runs on a few hundred tokens at a time. The backward pass keeps one number per token and
computes the logits again (public fault B19). A small [S, V] matrix (`KEEP_LOGITS` entries) is kept instead, which saves
that work. The gradients are explicit and equal those of autograd.

Temperature divides the logits, not the log-probs, and is equal in behaviour, old and current log-probs (B13). All
reductions are in float32 or wider, for every type of the hidden states.

Suffixes: S target tokens (sampled), H hidden size, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

KEEP_LOGITS = 2**26
"""Number of logits (256 MiB in float32) up to which they are kept between forward and backward."""
CHUNK_LOGITS = 2**24
"""Logits computed at a time when they are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """Log-prob and entropy of each target token."""

    logprob_S: Tensor
    """log softmax(logits / T) at the target, nats."""
    entropy_S: Tensor
    """Entropy of softmax(logits / T), nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTable:
    """`TokenScores` plus the rank, for analysis; without gradient."""

    logprob_S: Tensor
    entropy_S: Tensor
    rank_S: Tensor
    """Tokens with a larger logit than the target's: 0 means that the target was the most likely token."""


def token_scores(
    hidden_SH: Tensor,
    head_VH: Tensor,
    target_S: Tensor,
    temperature: float = 1.0,
    *,
    entropy_grad: bool = False,
    keep_logits: int = KEEP_LOGITS,
    chunk_logits: int = CHUNK_LOGITS,
) -> TokenScores:
    """Log-prob and entropy of each target under the head applied to its hidden state.

    Args:
        hidden_SH: hidden state at the cell *before* each target (`MicroBatch.source_S`).
        head_VH: weight of the language-model head (no bias).
        target_S: target token ids.
        temperature: T > 0; logits are divided by it.
        entropy_grad: propagate gradients through the entropy (entropy bonus); if False, it is detached.
        keep_logits: largest number of logits kept for the backward pass; above it, two passes compute them in chunks.
        chunk_logits: largest number of logits of one chunk (at least one token).

    Returns:
        Both in float32, or float64 for float64 hidden states.

    Raises:
        ValueError: shapes do not fit or the temperature is not positive.

    One token, logits (0, ln 3): p = (1/4, 3/4). At T = 0.5 the logits double: p = (1/10, 9/10).

    >>> head = torch.tensor([[0.0], [3.0]]).log1p().mul(torch.tensor([[0.0], [0.7924812]]))
    >>> one, target = torch.ones(1, 1), torch.tensor([1])
    >>> round(token_scores(one, head, target).logprob_S.exp().item(), 4)
    0.75
    >>> round(token_scores(one, head, target, temperature=0.5).logprob_S.exp().item(), 4)
    0.9
    """
    _check(hidden_SH, head_VH, target_S, temperature)
    num_logits = hidden_SH.shape[0] * head_VH.shape[0]
    keep = num_logits <= keep_logits
    chunk = max(hidden_SH.shape[0], 1) if keep else max(chunk_logits // head_VH.shape[0], 1)
    logprob_S, entropy_S = _TokenScores.apply(  # pyright: ignore[reportGeneralTypeIssues]
        hidden_SH, head_VH, target_S, temperature, chunk, keep
    )
    return TokenScores(logprob_S=logprob_S, entropy_S=entropy_S if entropy_grad else entropy_S.detach())


@torch.no_grad()
def token_table(
    hidden_SH: Tensor,
    head_VH: Tensor,
    target_S: Tensor,
    temperature: float = 1.0,
    *,
    chunk_logits: int = CHUNK_LOGITS,
) -> TokenTable:
    """Log-prob, entropy and rank of each target, without gradient; arguments as `token_scores`.

    >>> table = token_table(torch.ones(1, 1), torch.tensor([[1.0], [3.0], [2.0]]), torch.tensor([2]))
    >>> table.rank_S.tolist()
    [1]
    """
    _check(hidden_SH, head_VH, target_S, temperature)
    chunk = max(chunk_logits // head_VH.shape[0], 1)
    logprobs, entropies, ranks = [], [], []
    with torch.autocast(hidden_SH.device.type, enabled=False):
        for start in range(0, max(hidden_SH.shape[0], 1), chunk):
            logits = _logits(hidden_SH[start : start + chunk], head_VH, temperature)
            target = target_S[start : start + chunk, None]
            logprob, entropy, _, _ = _reduce(logits, target)
            logprobs.append(logprob)
            entropies.append(entropy)
            ranks.append((logits > logits.gather(1, target)).sum(1))
    return TokenTable(logprob_S=torch.cat(logprobs), entropy_S=torch.cat(entropies), rank_S=torch.cat(ranks))


def _check(hidden_SH: Tensor, head_VH: Tensor, target_S: Tensor, temperature: float) -> None:
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}: log-probs need a number above 0")
    if hidden_SH.ndim != 2 or head_VH.ndim != 2 or hidden_SH.shape[1] != head_VH.shape[1]:
        raise ValueError(
            f"hidden states {tuple(hidden_SH.shape)} and head {tuple(head_VH.shape)} do not fit: "
            "give [S, H] and [V, H]"
        )
    if target_S.shape != hidden_SH.shape[:1]:
        raise ValueError(f"{hidden_SH.shape[0]} hidden states but targets of shape {tuple(target_S.shape)}")


def _logits(hidden_SH: Tensor, head_VH: Tensor, temperature: float) -> Tensor:
    """Logits / T in float32 or wider; half-precision products accumulate and return float32."""
    if hidden_SH.dtype in (torch.bfloat16, torch.float16):
        if hidden_SH.is_cuda:
            logits = torch.mm(hidden_SH, head_VH.to(hidden_SH.dtype).T, out_dtype=torch.float32)
        else:
            logits = hidden_SH.float() @ head_VH.float().T
    else:
        logits = hidden_SH @ head_VH.to(hidden_SH.dtype).T
    return logits if temperature == 1.0 else logits.div_(temperature)


def _reduce(logits_SV: Tensor, target_S1: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-prob of the target, entropy, log of the sum of exponentials, and all probabilities.

    Subtracts the largest value of each row of `logits_SV` in place. One exponential per logit.
    """
    largest_S1 = logits_SV.amax(1, keepdim=True)
    shifted_SV = logits_SV.sub_(largest_S1)
    exp_SV = shifted_SV.exp()
    sum_S1 = exp_SV.sum(1, keepdim=True)
    log_sum_S = sum_S1.log().squeeze(1)
    logprob_S = shifted_SV.gather(1, target_S1).squeeze(1) - log_sum_S
    p_SV = exp_SV.div_(sum_S1)
    entropy_S = log_sum_S - torch.linalg.vecdot(p_SV, shifted_SV)
    return logprob_S, entropy_S, log_sum_S + largest_S1.squeeze(1), p_SV


def _as_given(method: Callable[..., Any]) -> Callable[..., Any]:
    """Run a method of an autograd function without autocast."""

    @functools.wraps(method)
    def run(ctx: Any, *args: Any) -> Any:
        device = next(
            a.device.type for a in (*args, *getattr(ctx, "saved_tensors", ())) if isinstance(a, Tensor)
        )
        with torch.autocast(device, enabled=False):
            return method(ctx, *args)

    return run


class _TokenScores(torch.autograd.Function):
    """d logprob / d logits = onehot - p;  d entropy / d logits = -p (log p + entropy); both over T.

    The types of the inputs decide the precision; autocast around the call has no effect.
    """

    @staticmethod
    @_as_given
    def forward(ctx, hidden_SH, head_VH, target_S, temperature, chunk, keep):
        logprobs, entropies, lses, kept = [], [], [], None
        for start in range(0, max(hidden_SH.shape[0], 1), chunk):
            logits = _logits(hidden_SH[start : start + chunk], head_VH, temperature)
            logprob, entropy, lse, p = _reduce(logits, target_S[start : start + chunk, None])
            logprobs.append(logprob)
            entropies.append(entropy)
            lses.append(lse)
            kept = p if keep else None
        logprob_S, entropy_S, lse_S = torch.cat(logprobs), torch.cat(entropies), torch.cat(lses)
        ctx.save_for_backward(hidden_SH, head_VH, target_S, lse_S, entropy_S, kept)
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.set_materialize_grads(False)
        return logprob_S, entropy_S

    @staticmethod
    @_as_given
    def backward(ctx, grad_logprob_S, grad_entropy_S):
        hidden_SH, head_VH, target_S, lse_S, entropy_S, kept = ctx.saved_tensors
        grad_hidden_SH = torch.empty_like(hidden_SH) if ctx.needs_input_grad[0] else None
        grad_head_VH = torch.zeros_like(head_VH, dtype=lse_S.dtype) if ctx.needs_input_grad[1] else None
        for start in range(0, hidden_SH.shape[0], ctx.chunk):
            span = slice(start, start + ctx.chunk)
            p = kept
            if p is None:
                p = _logits(hidden_SH[span], head_VH, ctx.temperature).sub_(lse_S[span, None]).exp_()
            grad = torch.zeros_like(p) if grad_logprob_S is None else p * -grad_logprob_S[span, None]
            if grad_entropy_S is not None:
                grad -= (torch.xlogy(p, p) + p * entropy_S[span, None]) * grad_entropy_S[span, None]
            if grad_logprob_S is not None:
                grad.scatter_add_(1, target_S[span, None], grad_logprob_S[span, None])
            if ctx.temperature != 1.0:
                grad.div_(ctx.temperature)
            grad = grad.to(hidden_SH.dtype)
            if grad_hidden_SH is not None:
                grad_hidden_SH[span] = grad @ head_VH.to(grad.dtype)
            if grad_head_VH is not None:
                grad_head_VH += grad.T @ hidden_SH[span]
        return grad_hidden_SH, None if grad_head_VH is None else grad_head_VH.to(head_VH.dtype), *[None] * 4
