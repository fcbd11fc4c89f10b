"""`selection_metrics`: rollouts by reason, and the effect of RoC on the penalties of the positives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from records.trajectory import SelectionReason
from trainer.selection.group_selection import GroupSelection
from trainer.selection.roc import SelectionRule, pressure


def selection_metrics(
    groups: Sequence[GroupSelection], rule: SelectionRule, advantages_N: Sequence[float]
) -> dict[str, float]:
    """Counts of a step by reason; penalties as means over positives, pooled over groups; spread of the advantages."""
    counts = {f"num_{reason.value}": 0 for reason in SelectionReason}
    before = after = 0.0
    num_before = num_after = 0
    for group in groups:
        selection = group.selection
        for reason in selection.reasons:
            counts[f"num_{reason.value}"] += 1
        if not selection.kept:
            continue
        pull = pressure(group.candidates, selection, rule)
        before += pull.p_total_before * pull.num_before if pull.num_before else 0.0
        after += pull.p_total_after * pull.num_after if pull.num_after else 0.0
        num_before, num_after = num_before + pull.num_before, num_after + pull.num_after
    kept = sum(len(group.selection.kept) for group in groups)
    total = sum(len(group.candidates) for group in groups)
    metrics: dict[str, float] = {**counts, "num_kept": kept, "num_dropped": total - kept}
    metrics["no_reward_frac"] = counts[f"num_{SelectionReason.NO_REWARD.value}"] / max(total, 1)
    if num_before:
        metrics["p_total_pos_before"] = before / num_before
    if num_after:
        metrics["p_total_pos_after"] = after / num_after
    if advantages_N:
        mean = math.fsum(advantages_N) / len(advantages_N)
        squares = math.fsum((a - mean) ** 2 for a in advantages_N)
        metrics["advantage_mean"] = mean
        metrics["advantage_std"] = math.sqrt(squares / len(advantages_N))
        metrics["advantage_max"] = max(map(abs, advantages_N))
    return metrics
