"""The funnel of the training data: rows left after each rule of the recipe (paper sections 4.1 and 4.2)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection
from records.data_card import CARD, DataCard
from records.manifest import REMEDY
from records.run_folder import RunFolder
from records.stored import read_record

COLUMNS = ["part", "step", "removed", "left", "sources", "non_commercial"]


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """One row per rule, in the order in which the rules apply."""
    path = RunFolder(run.root).data / CARD
    if not path.is_file():
        return pd.DataFrame(columns=COLUMNS)
    card = read_record(DataCard, path, REMEDY)
    rows = []
    for part, steps in card.funnels.items():
        sources = [source for source in card.sources if source.part == part]
        names = ", ".join(source.name for source in sources)
        bound = ", ".join(source.name for source in sources if source.non_commercial)
        rows += [
            {
                "part": part,
                "step": step.step,
                "removed": step.removed,
                "left": step.left,
                "sources": names,
                "non_commercial": bound,
            }
            for step in steps
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(table: pd.DataFrame) -> Figure:
    """One panel per part; a bar is what a rule left, its pale end what it removed."""
    parts = list(dict.fromkeys(table["part"]))
    most = int(table.groupby("part").size().max())
    figure, panels = style.new_figure(1, len(parts), height=0.9 + 0.24 * most)
    for axes, name in zip(panels, parts, strict=True):
        part = table[table["part"] == name]
        at = list(range(len(part)))[::-1]
        axes.barh(at, part["left"], height=0.66, color=style.SKY)
        axes.barh(at, part["removed"], left=part["left"], height=0.66, color=style.SKY, alpha=0.25)
        for place, row in zip(at, part.to_dict("records"), strict=True):
            removed = f"  -{row['removed']:,}" if row["removed"] else ""
            axes.text(
                0.02,
                place,
                f"{row['left']:,}{removed}",
                va="center",
                fontsize=7.5,
                transform=axes.get_yaxis_transform(),
                color=style.INK,
            )
        axes.set_yticks(at, [str(step).replace("_", " ") for step in part["step"]])
        axes.grid(axis="y", visible=False)
        axes.set_title(str(name))
        axes.set_xlabel("rows")
    return figure


PLOT = Plot(
    name="funnel",
    section=Section.TRAINING,
    place=90,
    title="Training data, rule by rule",
    caption="Rows left after each rule of the recipe, and rows that the rule removed (pale). The data card beside the "
    "problems names sources, licences and what was not checked. Paper: 42K problems of section 4.2, 222K of 4.1.",
    absent="the run trains on procedural problems, which pass no rule",
    table=table,
    draw=draw,
)
