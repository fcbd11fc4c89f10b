"""`PLOT`: score of every checkpoint on every ring, and the published scores of the same stages."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run, find_score
from config.model import AnalysisSection
from records.evaluation import RING_LABELS, RINGS
from records.stages import CHECKPOINTS

PUBLISHED = (("aime24", "AIME24 (published)"), ("aime25", "AIME25 (published)"))


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """Rows of this run (source measured, with intervals) and of the paper (source published, without)."""
    scores = run.scores()
    rows = []
    for checkpoint in CHECKPOINTS:
        for ring in RINGS:
            score = find_score(scores, checkpoint, ring)
            if score is not None:
                rows.append({"source": "measured", "series": RING_LABELS[ring], **asdict(score)})
    if not rows:
        return pd.DataFrame()
    for benchmark, label in PUBLISHED:
        for checkpoint, value in published_stages(reference, benchmark).items():
            row = {"source": "published", "series": label, "checkpoint": checkpoint, "benchmark": benchmark}
            rows.append(row | {"value": value / 100})
    return pd.DataFrame(rows)


def published_stages(reference: Reference, benchmark: str) -> dict[str, float]:
    """Published scores after SFT and after each stage, percent."""
    sft = reference["table1"]["rows"]["SFT model"][reference["table1"]["columns"].index(benchmark)]
    column = reference["stages"]["columns"].index(benchmark)
    return {"sft": sft} | {stage: row[column] for stage, row in reference["stages"]["rows"].items()}


def draw(table: pd.DataFrame) -> Figure:
    """Left: this run with intervals; right: the paper, without any."""
    figure, (left, right) = style.new_figure(1, 2, height=3.0)
    place = {name: float(i) for i, name in enumerate(CHECKPOINTS)}
    for axes, source in ((left, "measured"), (right, "published")):
        part = table[table["source"] == source]
        for number, (label, rows) in enumerate(part.groupby("series", sort=False)):
            color = style.SERIES[number]
            shift = 0.1 * (number - 1) if source == "measured" else 0.0
            at = [place[name] + shift for name in rows["checkpoint"]]
            if source == "measured":
                style.whiskers(axes, at, rows, color=color, label=str(label))
            axes.plot(
                at,
                rows["value"],
                color=color,
                linewidth=1,
                alpha=0.6 if source == "measured" else 1,
                marker=None if source == "measured" else "s",
                label=None if source == "measured" else str(label),
            )
        axes.set_xticks(list(place.values()), [style.CHECKPOINT_LABELS[name] for name in place])
        axes.set_xlim(-0.3, len(place) - 0.7)
        axes.set_ylim(-0.02, 1)
        style.as_percent(axes)
        axes.legend(loc="upper left")
    left.set_title("This run: test rings")
    right.set_title("The paper: 14B, other benchmarks")
    left.set_ylabel("accuracy (avg@k)")
    return figure


PLOT = Plot(
    name="scores",
    section=Section.SCORES,
    place=10,
    title="Scores by checkpoint",
    caption="Left: this run on its test rings, 95% intervals over questions. Right: the published scores after "
    "SFT and after each stage. The two panels measure different models on different problems: only the shape "
    "may be compared.",
    absent="no evaluation of the test rings is stored",
    table=table,
    draw=draw,
)
