"""`PLOT`: RL3 minus SFT on each ring, paired by question, with the controls: the headline of the report."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.claims.headline import control_rows, difference_rows
from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """Differences (kind difference) and levels of the controls (kind level)."""
    scores = run.scores()
    rows = [{"kind": "difference", **row} for row in difference_rows(scores, settings)]
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows + [{"kind": "level", **row} for row in control_rows(scores)])


def draw(table: pd.DataFrame) -> Figure:
    """Draw differences against 0 on the left, and RL3's score under each control on the right."""
    figure, (left, right) = style.new_figure(1, 2, height=2.4)
    for axes, kind, color in ((left, "difference", style.BLUE), (right, "level", style.GREEN)):
        part = table[table["kind"] == kind].reset_index(drop=True)
        at = list(range(len(part)))[::-1]
        style.whiskers(axes, at, part, color=color, horizontal=True)
        axes.set_yticks(at, part["label"])
        axes.set_ylim(-0.6, max(len(part) - 0.4, 0.6))
        axes.grid(axis="y", visible=False)
        style.as_percent(axes, x=True)
    left.axvline(0, color=style.INK, linewidth=0.9)
    left.set_title("RL 3 minus SFT")
    left.set_xlabel("difference, percentage points")
    right.set_xlim(left=-0.02)
    right.set_xlabel("accuracy, all rings")
    right.set_title("RL 3 and its controls")
    return figure


PLOT = Plot(
    name="differences",
    section=Section.HEADLINE,
    place=10,
    title="RL 3 against SFT, and the controls",
    caption="Left: difference of the two checkpoints of this one run on each test ring, paired by question, 95% "
    "interval. Right: RL 3 as it is, without the tool, against golds permuted within a family, and mute; chance "
    "is the best constant answer per family.",
    absent="no pair of SFT and RL 3 evaluations is stored",
    table=table,
    draw=draw,
)
