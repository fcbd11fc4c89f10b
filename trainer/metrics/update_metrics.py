"""`update_metrics`: metrics of the optimizer updates of one RL step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.update.grpo import UpdateMetrics


def update_metrics(updates: Sequence[UpdateMetrics]) -> dict[str, float]:
    """Means over the updates of a step; clip shares and mismatch pooled over tokens."""
    tokens = sum(update.num_tokens for update in updates)
    metrics: dict[str, float] = {"num_updates": len(updates), "num_trained_tokens": tokens}
    if not updates or not tokens:
        return metrics
    first = updates[0].mismatch
    return metrics | {
        "loss": sum(u.loss for u in updates) / len(updates),
        "grad_norm": sum(u.grad_norm for u in updates) / len(updates),
        "lr": updates[0].lr,
        "entropy_mean": sum(u.entropy_mean * u.num_tokens for u in updates) / tokens,
        "clip_low_frac": sum(u.sums.num_clipped_low for u in updates) / tokens,
        "clip_high_frac": sum(u.sums.num_clipped_high for u in updates) / tokens,
        "ratio_mean": sum(u.sums.sum_ratio for u in updates) / tokens,
        "mismatch_abs_mean": first.per_token(first.sum_abs_dlogp),
        "mismatch_abs_max": first.max_abs_dlogp,
    }
