"""`PLOT`: throughput of the code sandbox (the paper's figure 6 has no numbers beyond 45K calls per step and 0.3 s)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.report.bench_tables import sandbox_bench, sandbox_rows
from config.model import AnalysisSection


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """Verified calls per second against calls in flight."""
    return sandbox_rows(sandbox_bench(run))


def draw(table: pd.DataFrame) -> Figure:
    """One line per service, both axes logarithmic."""
    figure, (axes,) = style.new_figure(height=2.7)
    lines = (("ours", "this sandbox", style.BLUE), ("peer", "code-judge", style.ORANGE))
    for name, label, color in lines:
        part = table.dropna(subset=[name])
        if not part.empty:
            axes.plot(part["in_flight"], part[name], color=color, marker="o", label=label)
    both = table.dropna(subset=["ours", "peer"])
    for row in both.to_dict("records"):
        middle = (row["ours"] * row["peer"]) ** 0.5
        axes.annotate(f"x{row['ours'] / row['peer']:.0f}", (row["in_flight"], middle), color=style.MUTED)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(table["in_flight"], [f"{n:g}" for n in table["in_flight"]])
    axes.minorticks_off()
    axes.set_xlabel("calls in flight")
    axes.set_ylabel("verified calls per second")
    axes.legend(loc="center left")
    return figure


PLOT = Plot(
    name="sandbox",
    section=Section.INFRASTRUCTURE,
    place=20,
    title="Sandbox throughput",
    caption="Calls per second whose output was verified, on this machine. The paper reports 45K calls per training "
    "step at a mean of 0.3 s on the CPUs of 64 GPUs' hosts.",
    absent="the sandbox bench did not run",
    table=table,
    draw=draw,
)
