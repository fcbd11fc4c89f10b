"""`PLOT`: mean penalty of correct rollouts before and after RoC's selection, and groups without a signal."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection

PENALTY = (("p_total_pos_before", "before selection"), ("p_total_pos_after", "after selection"))
GROUPS = (("groups_all_right_frac", "all rollouts right"), ("groups_all_wrong_frac", "all rollouts wrong"))


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """One row per step."""
    metrics = run.metrics()
    columns = [name for name, _ in (*PENALTY, *GROUPS) if name in metrics]
    return metrics[["step", "stage", *columns]] if columns else pd.DataFrame()


def draw(table: pd.DataFrame) -> Figure:
    """Left: penalty of correct rollouts. Right: groups without a signal."""
    figure, (left, right) = style.new_figure(1, 2, height=2.7)
    for axes, lines in ((left, PENALTY), (right, GROUPS)):
        for (name, label), color in zip(lines, style.SERIES, strict=False):
            if name in table:
                axes.plot(table["step"], table[name], color=color, label=label, marker="o", markersize=2.5)
        axes.set_xlabel("RL step")
        axes.set_ylim(bottom=0)
        style.mark_stages(axes, table["step"], table["stage"], label=True)
        axes.legend()
    left.set_title("Mean penalty of correct rollouts", pad=14)
    right.set_title("Groups that teach nothing", pad=14)
    style.as_percent(right)
    return figure


PLOT = Plot(
    name="selection_pressure",
    section=Section.TRAINING,
    place=20,
    title="What RoC selects",
    caption="Left: mean p_err + p_format of correct rollouts as sampled and as kept; the gap is the pressure RoC "
    "exerts. Right: share of groups whose rollouts all have the same reward; the paper saw over 70% all right "
    "late in stage 2.",
    absent="metrics of the RL stages are not stored",
    table=table,
    draw=draw,
)
