"""`advantages`: group-normalised advantages (paper Eq. 7) in float64 Python.

Advantages are normalised once, over the kept rollouts of one problem; no later step rescales them (public fault B3).
The caller (`trainer.selection.roc`) removes rollouts without a reward, rejected groups and unselected rollouts first,
so they change neither mean nor std (B17, B38).

Invariants that the tests assert: a group sums to 0; a group without spread is exactly 0; the result does not
depend on the order of rows or groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SPREAD_TOLERANCE = 1e-6
"""Largest range of rewards, relative to the largest magnitude, that still counts as no spread."""


def has_spread(rewards_G: Sequence[float]) -> bool:
    """Report whether the rewards of one group differ, i.e. whether the group carries a gradient.

    The rule uses the range, not the std: rounding then cannot give a constant group a spread (public fault B1).
    A group of one is constant (B2). Selection and advantage share this rule.

    Args:
        rewards_G: rewards of the rollouts of one problem.

    Raises:
        ValueError: a reward is NaN or infinite.

    >>> has_spread([1.0, 0.0]), has_spread([0.35, 0.35, 0.35]), has_spread([1.0]), has_spread([])
    (True, False, False, False)
    """
    for position, reward in enumerate(rewards_G):
        if not math.isfinite(reward):
            raise ValueError(
                f"reward {position} of the group is {reward}: rewards must be finite; "
                "leave rollouts that could not be graded out of the group"
            )
    if len(rewards_G) < 2:
        return False
    largest = max(abs(reward) for reward in rewards_G)
    return max(rewards_G) - min(rewards_G) > SPREAD_TOLERANCE * largest


def group_advantages(rewards_G: Sequence[float]) -> list[float]:
    """Normalise the rewards of one group: (r - mean) / std, or exact zeros for a group without spread.

    Mean and std take two passes with exact summation (B1); the std divides by n - 1, as torch.std in the released
    code (docs/decisions.md). The std needs no epsilon, because of the zero rule.

    Args:
        rewards_G: rewards of the kept rollouts of one problem; any finite numbers.

    Returns:
        One advantage per rollout, in the given order; they sum to 0.

    Raises:
        ValueError: a reward is NaN or infinite.

    Three of four right: mean 3/4, variance (3 * 1/16 + 9/16) / 3 = 1/4, std 1/2.

    >>> group_advantages([1.0, 1.0, 1.0, 0.0])
    [0.5, 0.5, 0.5, -1.5]
    >>> group_advantages([0.35] * 3), group_advantages([1.0])
    ([0.0, 0.0, 0.0], [0.0])
    """
    if not has_spread(rewards_G):
        return [0.0] * len(rewards_G)
    mean = math.fsum(rewards_G) / len(rewards_G)
    deviations_G = [reward - mean for reward in rewards_G]
    variance = math.fsum(deviation * deviation for deviation in deviations_G) / (len(rewards_G) - 1)
    std = math.sqrt(variance)
    return [deviation / std for deviation in deviations_G]


def advantages(rewards_N: Sequence[float], groups_N: Sequence[str]) -> list[float]:
    """Advantages of a whole batch, each row normalised within its own group.

    The id of the problem defines a group, never the position of a row (public fault B4).

    Args:
        rewards_N: one finite reward per row.
        groups_N: problem id of each row.

    Returns:
        One advantage per row, in the given order.

    Raises:
        ValueError: the two lists differ in length, or a reward is NaN or infinite (the group is named).

    >>> advantages([1.0, 5.0, 0.0, 7.0], ["a", "b", "a", "b"])[:2]
    [0.7071067811865475, -0.7071067811865475]
    """
    if len(rewards_N) != len(groups_N):
        raise ValueError(f"{len(rewards_N)} rewards but {len(groups_N)} group ids: give one id per reward")
    rows_of_group: dict[str, list[int]] = {}
    for row, group in enumerate(groups_N):
        rows_of_group.setdefault(group, []).append(row)
    advantages_N = [0.0] * len(rewards_N)
    for group, rows in rows_of_group.items():
        try:
            advantages_G = group_advantages([rewards_N[row] for row in rows])
        except ValueError as error:
            raise ValueError(f"problem {group!r}: {error}") from error
        for row, advantage in zip(rows, advantages_G, strict=True):
            advantages_N[row] = advantage
    return advantages_N
