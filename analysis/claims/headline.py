"""`difference_rows` and `control_rows`: the headline: RL3 - SFT per ring, and the score under each control."""

from __future__ import annotations

from typing import Any

from analysis.claims.effects import compare_scores, find_pair
from analysis.inputs.runs import CONTROLS, find_score
from config.model import AnalysisSection
from records.evaluation import POOLED, RING_LABELS, RINGS, Score
from records.stages import ENDS, LAST

LABELS = RING_LABELS | {POOLED: "all rings"}
CONTROL_LABELS = {
    "none": "RL 3 as it is",
    "tool_off": "tool off",
    "shuffled_golds": "golds permuted",
    "mute": "mute model",
}


def difference_rows(
    scores: list[Score], settings: AnalysisSection, a: str = ENDS[0], b: str = ENDS[1]
) -> list[dict[str, Any]]:
    """Return one row per ring with both checkpoints: levels, paired difference, interval, p."""
    rows = []
    for benchmark in (*RINGS, POOLED):
        pair = find_pair(scores, a, b, benchmark)
        difference = compare_scores(*pair, settings) if pair else None
        if pair is None or difference is None:
            continue
        rows.append(
            {
                "label": LABELS[benchmark],
                "benchmark": benchmark,
                "metric_a": pair[0].metric,
                "metric_b": pair[1].metric,
                "value_a": pair[0].value,
                "value_b": pair[1].value,
                "value": difference.value,
                "low": difference.low,
                "high": difference.high,
                "p": difference.p,
                "num_questions": difference.num_questions,
                "newly_right": difference.newly_right,
                "newly_wrong": difference.newly_wrong,
            }
        )
    return rows


def control_rows(scores: list[Score], checkpoint: str = LAST) -> list[dict[str, Any]]:
    """Return RL3 on `procedural` without a control, under each control, and at chance."""
    rows = []
    for control in CONTROLS:
        score = find_score(scores, checkpoint, "procedural", control=control)
        if score is not None:
            rows.append({"label": CONTROL_LABELS[control], "control": control, **_levels(score)})
    # For the same questions: the best constant answer of fewer questions scores higher.
    chance = find_score(scores, checkpoint, "procedural", metric="chance")
    if chance is not None:
        rows.append({"label": "chance: best constant", "control": "chance", **_levels(chance)})
    return rows


def _levels(score: Score) -> dict[str, Any]:
    return {
        "metric": score.metric,
        "value": score.value,
        "low": score.low,
        "high": score.high,
        "num_questions": score.num_questions,
    }
