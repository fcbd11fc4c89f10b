"""`PLOT`: simulated rollout makespan of every scheduling policy (the paper's figure 7 has no numbers)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.report.bench_tables import scheduler_bench, scheduler_rows
from config.model import AnalysisSection


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """Return makespans, also relative to the suite's policy and to the lower bound."""
    return scheduler_rows(scheduler_bench(run))


def draw(table: pd.DataFrame) -> Figure:
    """One panel per workload, policies from fast to slow."""
    workloads = list(dict.fromkeys(table["workload"]))
    most = int(table.groupby("workload").size().max())
    figure, panels = style.new_figure(1, len(workloads), height=0.9 + 0.24 * most)
    for number, (axes, workload) in enumerate(zip(panels, workloads, strict=True)):
        order = table[table["workload"] == workloads[0]].sort_values("over_ours")["policy"].tolist()
        part = table[table["workload"] == workload].set_index("policy").loc[order].reset_index()
        at = list(range(len(part)))[::-1]
        error = None
        if part[["low", "high"]].notna().to_numpy().all():
            error = [part["over_ours"] - part["low"], part["high"] - part["over_ours"]]
        axes.barh(at, part["over_ours"], height=0.66, color=style.SKY, xerr=error, ecolor=style.INK)
        for place, row in zip(at, part.to_dict("records"), strict=True):
            text = f"{row['over_ours']:.2f}  ({row['makespan_s']:,.0f} s)"
            axes.text(
                0.02,
                place,
                text,
                va="center",
                fontsize=7.5,
                transform=axes.get_yaxis_transform(),
                color=style.INK,
            )
        axes.axvline(1, color=style.INK, linewidth=0.9)
        axes.set_yticks(at, part["policy"] if number == 0 else [""] * len(at))
        axes.grid(axis="y", visible=False)
        axes.set_title(str(workload))
        axes.set_xlabel("simulated makespan over ours")
    return figure


PLOT = Plot(
    name="scheduler",
    section=Section.INFRASTRUCTURE,
    place=10,
    title="Rollout scheduling, simulated",
    caption="Makespan of one rollout batch in the simulator, every policy on the same workloads, relative to this "
    "suite's own; whiskers over workload seeds where there are several. Simulated: not a real engine.",
    absent="the scheduler bench did not run",
    table=table,
    draw=draw,
)
