"""`selection_metrics`: rollouts by reason, and the effect of RoC on the penalties of the positives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from config.objective import RocSection
from records.trajectory import SelectionReason
from trainer.selection.group_selection import GroupSelection
from trainer.selection.roc import pressure


def selection_metrics(groups: Sequence[GroupSelection], roc: RocSection) -> dict[str, float]:
    """Counts of a step, the rollouts left out by reason; penalties as means over positives, pooled over groups."""
    counts: Counter[SelectionReason] = Counter(dict.fromkeys(SelectionReason, 0))
    before = after = 0.0
    num_before = num_after = 0
    for group in groups:
        selection = group.selection
        for reason in selection.reasons:
            counts[reason] += 1
        if not selection.kept:
            continue
        pull = pressure(group.candidates, selection, roc)
        before += pull.p_total_before * pull.num_before if pull.num_before else 0.0
        after += pull.p_total_after * pull.num_after if pull.num_after else 0.0
        num_before, num_after = num_before + pull.num_before, num_after + pull.num_after
    metrics: dict[str, float] = {
        f"num_{reason.value}": num for reason, num in counts.items() if not reason.is_kept
    }
    metrics["num_kept"] = sum(num for reason, num in counts.items() if reason.is_kept)
    metrics["no_reward_frac"] = counts[SelectionReason.NO_REWARD] / max(counts.total(), 1)
    if num_before:
        metrics["p_total_pos_before"] = before / num_before
    if num_after:
        metrics["p_total_pos_after"] = after / num_after
    return metrics
