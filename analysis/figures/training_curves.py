"""`PLOT`: accuracy, length, tool errors and truncation over the RL steps (the paper's figures 4 and 8)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection

PANELS = (
    ("Accuracy of raw rollouts", (("accuracy", "all rollouts"),), True),
    (
        "Response length, tokens",
        (("response_len_mean", "all rollouts"), ("response_len_correct_mean", "correct ones")),
        False,
    ),
    (
        "Share of tool calls that fail",
        (("tool_error_frac", "all rollouts"), ("tool_error_frac_correct", "correct ones")),
        True,
    ),
    ("Share of truncated rollouts", (("truncated_frac", "all rollouts"),), True),
)


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """One row per step: the metrics of the four panels."""
    metrics = run.metrics()
    columns = [name for _, lines, _ in PANELS for name, _ in lines if name in metrics]
    return metrics[["step", "stage", *columns]] if columns else pd.DataFrame()


def draw(table: pd.DataFrame) -> Figure:
    """Four panels; dashed lines are stage boundaries."""
    figure, panels = style.new_figure(2, 2, height=2.4)
    for number, (axes, (title, lines, share)) in enumerate(zip(panels, PANELS, strict=True)):
        for (name, label), color in zip(lines, style.SERIES, strict=False):
            if name in table:
                axes.plot(table["step"], table[name], color=color, label=label, marker="o", markersize=2.5)
        axes.set_title(title, pad=14 if number < 2 else 8)
        if share:
            style.as_percent(axes)
        axes.set_ylim(bottom=0)
        if number >= 2:
            axes.set_xlabel("RL step")
        style.mark_stages(axes, table["step"], table["stage"], label=number < 2)
        if len(lines) > 1:
            axes.legend()
    return figure


PLOT = Plot(
    name="training_curves",
    section=Section.TRAINING,
    place=10,
    title="Training curves",
    caption="Metrics of raw rollouts, before any selection, over the steps of the three RL stages; dashed lines are "
    "stage boundaries. Corresponds to figures 4 and 8 of the paper, whose curve values are not published. One run.",
    absent="metrics of the RL stages are not stored",
    table=table,
    draw=draw,
)
