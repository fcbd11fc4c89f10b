"""`clipped_loss`: the clipped token objective of GRPO-RoC (paper Eq. 6) on tensors of per-token numbers.

The loss of an optimizer batch is a plain sum: each token has a weight = 1 / denominator, computed once from the whole
batch, all micro-batches and all ranks (`row_weights`). The gradient therefore does not depend on how rows are split
(public fault B5), padded (B6) or ordered, as long as gradients are summed. If the framework averages over ranks,
multiply the loss by the number of ranks.

Suffixes: T tokens of one micro-batch that enter the loss (sampled tokens), in any order; N rows.

Values outside the mask do not enter any computation: they may be NaN or infinite (B8). The KL penalty and the entropy
bonus, which the paper removes, are separate functions for experiment arms.

Invariants that the tests assert: equal gradients for splits 1, 2, 4 and uneven; a token's gradient is zero
exactly where the table of (ratio, sign of advantage) requires it (B15); numerator and denominator use the same mask
(B7).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from config.objective import Normalisation

MAX_LOG_RATIO = 20.0
"""Bound of log-ratios before exp: e^20 is far outside any clip, and exp cannot overflow to inf * 0 = NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSums:
    """Statistics of some tokens as sums, which add over micro-batches and ranks."""

    num_tokens: int = 0
    num_clipped_low: int = 0
    """Tokens of negative advantage whose ratio is below the clip range: no gradient."""
    num_clipped_high: int = 0
    """Tokens of positive advantage whose ratio is above the clip range: no gradient."""
    sum_ratio: float = 0.0
    sum_abs_dlogp: float = 0.0
    """|current - old|, nats."""
    max_abs_dlogp: float = 0.0

    def __add__(self, other: TokenSums) -> TokenSums:
        return TokenSums(
            num_tokens=self.num_tokens + other.num_tokens,
            num_clipped_low=self.num_clipped_low + other.num_clipped_low,
            num_clipped_high=self.num_clipped_high + other.num_clipped_high,
            sum_ratio=self.sum_ratio + other.sum_ratio,
            sum_abs_dlogp=self.sum_abs_dlogp + other.sum_abs_dlogp,
            max_abs_dlogp=max(self.max_abs_dlogp, other.max_abs_dlogp),
        )

    def per_token(self, total: float) -> float:
        """`total` divided by the number of tokens; 0 without tokens.

        >>> TokenSums(num_tokens=4, num_clipped_low=1).per_token(1), TokenSums().per_token(0.0)
        (0.25, 0.0)
        """
        return total / max(self.num_tokens, 1)


# --- denominators ----------------------------------------------------------------------------------------


def row_weights(
    normalisation: Normalisation,
    num_tokens_N: Sequence[int],
    groups_N: Sequence[str],
    micro_batches: Sequence[Sequence[int]] = (),
    mini_batch_rows: int | None = None,
) -> list[float]:
    """Weight of each loss token of a row, from the rows of one whole optimizer batch (all ranks).

    - global_tokens: 1 / sampled tokens of the batch (DAPO; practice).
    - per_group_tokens: 1 / (groups * sampled tokens of the row's group): Eq. 6 as written, averaged over
      questions.
    - release_microbatch: (rows of the micro-batch / mini_batch_rows) / sampled tokens of the micro-batch: the
      released code; it depends on the split, a deliberate copy of fault B5.

    The caller passes trained rows only, so dropped groups leave the denominator (B18), and only sampled tokens
    count (B7). Rows without a sampled token get weight 0, and their group does not count.

    Args:
        normalisation: choice of the denominator.
        num_tokens_N: loss tokens of each row.
        groups_N: problem id of each row.
        micro_batches: row indices of each micro-batch; for release_microbatch only.
        mini_batch_rows: rows that the release expects per update (prompts * rollouts sampled, before RoC); for
            release_microbatch only; None: the number of rows here.

    Raises:
        ValueError: the lists differ in length, or the micro-batches do not hold each row exactly once.

    Two groups, one of 2 + 2 tokens, one of 4:

    >>> row_weights(Normalisation.GLOBAL_TOKENS, [2, 2, 4], ["a", "a", "b"])
    [0.125, 0.125, 0.125]
    >>> row_weights(Normalisation.PER_GROUP_TOKENS, [2, 2, 6], ["a", "a", "b"])
    [0.125, 0.125, 0.08333333333333333]
    >>> row_weights(Normalisation.RELEASE_MICROBATCH, [2, 2, 4], ["a", "a", "b"], [[0], [1, 2]], 6)
    [0.08333333333333333, 0.05555555555555555, 0.05555555555555555]
    """
    if len(num_tokens_N) != len(groups_N):
        raise ValueError(
            f"{len(num_tokens_N)} token counts but {len(groups_N)} group ids: give one id per row"
        )
    match normalisation:
        case Normalisation.GLOBAL_TOKENS:
            return [_inverse(sum(num_tokens_N)) for _ in num_tokens_N]
        case Normalisation.PER_GROUP_TOKENS:
            tokens_of_group: Counter[str] = Counter()
            for num_tokens, group in zip(num_tokens_N, groups_N, strict=True):
                tokens_of_group[group] += num_tokens
            num_groups = sum(tokens > 0 for tokens in tokens_of_group.values())
            return [_inverse(num_groups * tokens_of_group[group]) for group in groups_N]
        case Normalisation.RELEASE_MICROBATCH:
            return _microbatch_weights(num_tokens_N, micro_batches, mini_batch_rows)


def _inverse(count: int) -> float:
    return 1.0 / count if count > 0 else 0.0


def _microbatch_weights(
    num_tokens_N: Sequence[int], micro_batches: Sequence[Sequence[int]], mini_batch_rows: int | None
) -> list[float]:
    if sorted(row for rows in micro_batches for row in rows) != list(range(len(num_tokens_N))):
        raise ValueError(
            f"release_microbatch needs micro-batches that hold each of the {len(num_tokens_N)} rows once"
        )
    expected_rows = len(num_tokens_N) if mini_batch_rows is None else mini_batch_rows
    weights_N = [0.0] * len(num_tokens_N)
    for rows in micro_batches:
        weight = _inverse(sum(num_tokens_N[row] for row in rows)) * len(rows) / max(expected_rows, 1)
        for row in rows:
            weights_N[row] = weight
    return weights_N


# --- the loss --------------------------------------------------------------------------------------------


def clipped_loss(
    current_T: Tensor,
    old_T: Tensor,
    advantage_T: Tensor,
    weight_T: Tensor,
    mask_T: Tensor,
    clip: Sequence[float],
) -> tuple[Tensor, TokenSums]:
    """Negative clipped surrogate, summed: - sum_t weight * min(ratio A, clip(ratio, 1 - low, 1 + high) A).

    For A > 0 only the upper bound can bind, for A < 0 only the lower (B15); a bound token has no gradient.

    Args:
        current_T: log-probs under the weights being trained; carries the gradient.
        old_T: log-probs under the weights before the first update of this step. With one update per step pass
            `current_T.detach()`: the ratio is then 1, and the gradient that of A log p.
        advantage_T: advantage of each token's row.
        weight_T: from `row_weights`.
        mask_T: bool; tokens outside contribute nothing, for any values.
        clip: (low, high), widths of the range of the ratio; paper section 2.2.1: 0.2 and, Clip-Higher, 0.28.

    Returns:
        The scalar loss (0 with a graph when no token is selected, so that collectives still run) and the sums
        of clip share, ratio and |d log p| over the selected tokens.

    Raises:
        ValueError: the tensors differ in shape, or a selected value is not finite.

    A token of ratio 1.5 and advantage 1 is cut at 1.28; one of advantage -1 is not. Weights are 1/2:

    >>> current = torch.tensor([1.5, 1.5]).log().requires_grad_()
    >>> half, on = torch.full((2,), 0.5), torch.tensor([True, True])
    >>> loss, sums = clipped_loss(current, torch.zeros(2), torch.tensor([1.0, -1.0]), half, on, (0.2, 0.28))
    >>> loss.backward()
    >>> round(loss.item(), 4), [round(g, 4) for g in current.grad.tolist()], sums.num_clipped_high
    (0.11, [0.0, 0.75], 1)
    """
    _check_shapes(current_T, old_T, advantage_T, weight_T, mask_T)
    current_T = torch.where(mask_T, current_T, 0.0)
    old_T = torch.where(mask_T, old_T, 0.0).detach()
    advantage_T = torch.where(mask_T, advantage_T, 0.0)
    weight_T = torch.where(mask_T, weight_T, 0.0)

    low, high = clip
    log_ratio_T = current_T - old_T
    ratio_T = log_ratio_T.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    above_T = (advantage_T > 0) & (ratio_T > 1 + high)
    below_T = (advantage_T < 0) & (ratio_T < 1 - low)
    used_T = torch.where(above_T, 1 + high, torch.where(below_T, 1 - low, ratio_T))
    loss = -(weight_T * advantage_T * used_T).sum()
    return loss, _sums(mask_T, log_ratio_T.detach(), below_T, above_T)


def _check_shapes(current_T: Tensor, *others_T: Tensor) -> None:
    for other_T in others_T:
        if other_T.shape != current_T.shape:
            raise ValueError(
                f"per-token tensors differ in shape: {tuple(current_T.shape)} and {tuple(other_T.shape)}"
            )


def _sums(mask_T: Tensor, log_ratio_T: Tensor, below_T: Tensor, above_T: Tensor) -> TokenSums:
    """Transfer all sums from the device at once. Raises ValueError for values that are not finite."""
    log_ratio_T = log_ratio_T.double()
    ratio_T = log_ratio_T.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    distance_T = log_ratio_T.abs()
    largest = distance_T.max() if distance_T.numel() else distance_T.sum()
    totals = [
        mask_T.sum(),
        below_T.sum(),
        above_T.sum(),
        torch.where(mask_T, ratio_T, 0.0).sum(),
        distance_T.sum(),
        largest,
    ]
    tokens, low, high, ratio, distance, largest = torch.stack([t.double() for t in totals]).tolist()
    if not math.isfinite(distance):
        raise ValueError(
            "a log-prob of a sampled token is not finite: the weights or the behaviour log-probs are broken; "
            "nothing was updated"
        )
    return TokenSums(
        num_tokens=int(tokens),
        num_clipped_low=int(low),
        num_clipped_high=int(high),
        sum_ratio=ratio,
        sum_abs_dlogp=distance,
        max_abs_dlogp=largest,
    )


# --- engine and trainer disagree -------------------------------------------------------------------------


def mismatch_sums(trainer_T: Tensor, behaviour_T: Tensor, mask_T: Tensor) -> TokenSums:
    """Distance between the trainer's and the engine's log-probs, over the selected tokens (public fault B21).

    Args:
        trainer_T: the trainer's log-probs under the engine's weights.
        behaviour_T: log-probs that the engine reported.
        mask_T: bool, sampled tokens.

    >>> on = torch.tensor([True, True])
    >>> sums = mismatch_sums(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -2.0]), on)
    >>> sums.max_abs_dlogp, sums.per_token(sums.sum_abs_dlogp)
    (0.5, 0.25)
    """
    _check_shapes(trainer_T, behaviour_T, mask_T)
    log_ratio_T = torch.where(mask_T, trainer_T - behaviour_T, 0.0).detach()
    nothing_T = torch.zeros_like(mask_T)
    return _sums(mask_T, log_ratio_T, nothing_T, nothing_T)


# --- terms the paper removes, for experiment arms --------------------------------------------------------


def kl_penalty(current_T: Tensor, reference_T: Tensor, weight_T: Tensor, mask_T: Tensor) -> Tensor:
    """k3 estimate of KL(current || reference), summed with the weights; multiply by the coefficient and add.

    exp(reference - current) - 1 - (reference - current), never negative. The paper removes it (section 2.2.1).

    >>> on = torch.tensor([True])
    >>> kl_penalty(torch.tensor([-1.0]), torch.tensor([-1.0]), torch.ones(1), on).item()
    0.0
    >>> round(kl_penalty(torch.tensor([-1.0]), torch.tensor([-2.0]), torch.ones(1), on).item(), 4)
    0.3679
    """
    _check_shapes(current_T, reference_T, weight_T, mask_T)
    log_ratio_T = torch.where(mask_T, reference_T.detach() - current_T, 0.0)
    k3_T = log_ratio_T.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp() - 1 - log_ratio_T
    return (torch.where(mask_T, weight_T, 0.0) * k3_T).sum()


def entropy_bonus(entropy_T: Tensor, weight_T: Tensor, mask_T: Tensor) -> Tensor:
    """Mean entropy with the loss weights; multiply by the coefficient and subtract from the loss.

    The paper removes it (section 2.2.3).

    >>> entropy_bonus(torch.tensor([1.0, 2.0]), torch.full((2,), 0.5), torch.tensor([True, True])).item()
    1.5
    """
    _check_shapes(entropy_T, weight_T, mask_T)
    return (torch.where(mask_T, weight_T, 0.0) * torch.where(mask_T, entropy_T, 0.0)).sum()
