"""`PLOT`: arms on four units of cost, which decide the ranking (the paper's Figure 9 has steps alone)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.experiments.arms import AXES, MAIN_ARMS, curve_table, read_run_arms
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection
from records.arm_record import ArmRecord


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """One row per arm, run and step."""
    return table_of(read_run_arms(run))


def table_of(records: Sequence[ArmRecord]) -> pd.DataFrame:
    """Return the same rows from records."""
    return curve_table([record for record in records if record.arm in MAIN_ARMS])


def draw(table: pd.DataFrame) -> Figure:
    """Accuracy above, failed calls in correct rollouts below, one column per unit of cost; thin lines are runs."""
    figure, panels = style.new_figure(2, len(AXES), height=4.0)
    arms = [arm for arm in MAIN_ARMS if arm in set(table["arm"])]
    for row, metric in enumerate(("accuracy", "tool_error_frac_correct")):
        for column, (axis, label) in enumerate(AXES.items()):
            axes = panels[row * len(AXES) + column]
            for color, arm in zip(style.SERIES, arms, strict=False):
                part = table[table["arm"] == arm]
                for _, one in part.groupby(["origin", "seed"]):
                    axes.plot(one[axis], one[metric], color=color, linewidth=0.5, alpha=0.35)
                mean = (
                    part.groupby("step")[[axis, metric] if axis != "step" else [metric]].mean().reset_index()
                )
                axes.plot(mean[axis], mean[metric], color=color, linewidth=1.6, label=arm)
            style.as_percent(axes)
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_locator(style.few_ticks())
            axes.xaxis.set_major_formatter(style.short_number())
            if row:
                axes.set_xlabel(label)
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel("accuracy" if not row else "failed calls, correct")
    panels[0].legend(fontsize=6)
    return figure


PLOT = Plot(
    name="arms",
    section=Section.TRAINING,
    place=40,
    title="Arms against four units of cost",
    caption="Raw training rollouts before selection, stage 1; thin lines are runs, thick ones means over runs of the "
    "same step. Above: accuracy. Below: share of failed calls in correct rollouts. RoC samples twice the rollouts of "
    "grpo_g per step, so the first column favours it; the others charge for that.",
    absent="no experiment arm is stored",
    table=table,
    draw=draw,
)
