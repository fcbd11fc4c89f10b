"""`grid`: set-up, training metrics at the ends, and scores of each stage (the paper's section 4.3)."""

from __future__ import annotations

import pandas as pd

from analysis.inputs.reference import LENGTHS, Reference
from analysis.inputs.runs import Run, find_score
from analysis.tables.grid import DASH, Grid, percent_cell, published_cell
from config.model import AnalysisSection
from records.stages import RL_STAGES

METRICS = (
    ("response_len_mean", "length"),
    ("tool_error_frac_correct", "tool errors, correct"),
    ("truncated_frac", "truncated"),
    ("groups_all_right_frac", "all right"),
)
EDGE = 3
"""Steps averaged at the start and at the end of a stage."""


def grid(run: Run, settings: AnalysisSection, reference: Reference) -> Grid:
    """A row per stage, own and published."""
    metrics, scores = run.metrics(), run.scores()
    own = []
    for stage in RL_STAGES:
        part = metrics[metrics["stage"] == stage]
        score = find_score(scores, stage, "procedural")
        if part.empty and score is None:
            continue
        cell = percent_cell(score.value, score.low, score.high) if score else DASH
        steps = str(int(part["step"].max())) if len(part) else DASH
        own.append([stage, steps, *[_ends(part, name) for name, _ in METRICS], cell, DASH, DASH])
    lengths = reference["training"]["response_len_tokens"]
    starts = dict(zip(LENGTHS[1:], LENGTHS, strict=False))
    published = [
        [
            stage,
            published_cell(row[0]),
            f"{lengths[starts[stage]]:,} > {lengths[stage]:,}",
            *[DASH] * 4,
            published_cell(row[4]),
            published_cell(row[5]),
        ]
        for stage, row in reference["stages"]["rows"].items()
    ]
    return Grid(
        name="stages",
        title=f"Stages of run {run.name} and section 4.3",
        header=["stage", "last step", *[label for _, label in METRICS], "procedural", "AIME24", "AIME25"],
        groups={"this run": own, "published": published},
        note=f"Training metrics are of raw rollouts, mean of the first {EDGE} > mean of the last {EDGE} steps of the "
        "stage; lengths in tokens, the rest in percent. Scores with 95% intervals over questions.",
    )


def _ends(part: pd.DataFrame, name: str) -> str:
    if name not in part or part[name].dropna().empty:
        return DASH
    values = part[name].dropna()
    scale, digits = (1, 0) if name == "response_len_mean" else (100, 1)
    first, last = float(values.head(EDGE).mean()), float(values.tail(EDGE).mean())
    return f"{scale * first:,.{digits}f} > {scale * last:,.{digits}f}"
