"""`PLOT`: accuracy against steps, rollouts, sampled tokens and seconds, because a step is no unit of cost."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection

AXES = (
    ("step", "RL steps"),
    ("rollouts", "sampled rollouts"),
    ("tokens", "sampled tokens"),
    ("seconds", "seconds of the steps"),
)


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """One row per step: accuracy and the cumulative cost in each unit that is stored."""
    metrics = run.metrics()
    if "accuracy" not in metrics:
        return pd.DataFrame()
    found = metrics[["step", "stage", "accuracy"]].copy()
    for source, name in (("num_rollouts", "rollouts"), ("num_sampled_tokens", "tokens")):
        if source in metrics:
            found[name] = metrics[source].cumsum()
    timing = run.timing()
    parts = [name for name in ("rollout_s", "update_s") if name in timing]
    if parts:
        seconds = timing.assign(seconds=timing[parts].sum(axis=1))[["step", "stage", "seconds"]]
        found = found.merge(seconds, on=["step", "stage"], how="left")
        found["seconds"] = found["seconds"].cumsum()
    return found


def draw(table: pd.DataFrame) -> Figure:
    """One panel per unit of cost."""
    shown = [(name, label) for name, label in AXES if name in table]
    figure, panels = style.new_figure(1, len(shown), height=2.2)
    for number, (axes, (name, label)) in enumerate(zip(panels, shown, strict=True)):
        for color, (stage, part) in zip(style.SERIES, table.groupby("stage", sort=False), strict=False):
            title = style.CHECKPOINT_LABELS.get(str(stage), str(stage))
            axes.plot(part[name], part["accuracy"], color=color, label=title, marker="o", markersize=2.5)
        axes.set_xlabel(label)
        axes.xaxis.set_major_locator(style.few_ticks())
        axes.xaxis.set_major_formatter(style.short_number())
        style.as_percent(axes)
        axes.set_ylim(bottom=0)
        if number:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel("accuracy")
            axes.legend()
    return figure


PLOT = Plot(
    name="cost_axes",
    section=Section.TRAINING,
    place=30,
    title="Accuracy against four units of cost",
    caption="The same accuracies of raw rollouts against steps, sampled rollouts, sampled tokens and seconds of "
    "rollout and update. Recipes that differ in rollouts per step can only be compared on the last three axes.",
    absent="metrics of the RL stages are not stored",
    table=table,
    draw=draw,
)
