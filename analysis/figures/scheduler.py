"""Simulated rollout makespan of every scheduling policy (the paper's figure 7 has no numbers)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.benches import scheduler_rows
from analysis.entropy import Settings
from analysis.figures import style
from analysis.figures.plot import Plot, Reference
from analysis.runs import Run


def table(run: Run, settings: Settings, reference: Reference) -> pd.DataFrame:
    """Makespans, and the same relative to the best policy of the workload."""
    rows = scheduler_rows(run.bench("scheduler"))
    if rows.empty:
        return rows
    best = rows.groupby("workload")["makespan_s"].transform("min")
    return rows.assign(relative=rows["makespan_s"] / best)


def draw(table: pd.DataFrame) -> Figure:
    """One panel per workload, policies from fast to slow."""
    workloads = list(dict.fromkeys(table["workload"]))
    most = int(table.groupby("workload").size().max())
    figure, panels = style.new_figure(1, len(workloads), height=0.9 + 0.32 * most)
    for axes, workload in zip(panels, workloads, strict=True):
        part = table[table["workload"] == workload].sort_values("makespan_s", ignore_index=True)
        at = list(range(len(part)))[::-1]
        error = None
        if part[["low", "high"]].notna().to_numpy().all():
            error = [part["makespan_s"] - part["low"], part["high"] - part["makespan_s"]]
        axes.barh(at, part["makespan_s"], height=0.6, color=style.SKY, xerr=error, ecolor=style.INK)
        for place, row in zip(at, part.to_dict("records"), strict=True):
            axes.text(
                0.02,
                place,
                f"{row['makespan_s']:,.0f} s, x{row['relative']:.2f}",
                va="center",
                fontsize=8,
                transform=axes.get_yaxis_transform(),
            )
        axes.set_yticks(at, part["policy"])
        axes.grid(axis="y", visible=False)
        axes.set_title(f"{workload} workload")
        axes.set_xlabel("simulated makespan, s")
    return figure


PLOT = Plot(
    name="scheduler",
    title="Rollout scheduling, simulated",
    caption="Makespan of one rollout batch in the simulator, every policy on the same workloads; bars are intervals "
    "over workload draws. Simulated evidence: it says nothing of a real engine by itself.",
    absent="the scheduler bench did not run",
    table=table,
    draw=draw,
)
