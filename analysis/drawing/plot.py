"""`Plot`: one figure with its data, its drawing and its caption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.table_file import save_table
from config.model import AnalysisSection


class Section(StrEnum):
    """The parts of the report that hold figures, in the order of the page."""

    HEADLINE = "headline"
    SCORES = "scores"
    TRAINING = "training"
    ENTROPY = "entropy"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure of the report, which a module of `analysis.figures` declares."""

    name: str
    """That of its file."""
    section: Section
    place: int
    """Ascending within a section; equal ones follow by name."""
    title: str
    caption: str
    """Describes the data and how to read the drawing; names the corresponding figure of the paper."""
    absent: str
    """Reason shown where there is no data."""
    table: Callable[[Run, AnalysisSection, Reference], pd.DataFrame]
    """The plotted data; empty when the run does not hold it."""
    draw: Callable[[pd.DataFrame], Figure]


def write(plot: Plot, run: Run, settings: AnalysisSection, reference: Reference, out: Path) -> dict[str, Any]:
    """Write the CSV and the three pictures; return the figure's row of the manifest."""
    table = plot.table(run, settings, reference)
    save_table(table, out / "data" / f"{plot.name}.csv")
    with style.styled():
        figure = style.no_data(plot.absent) if table.empty else plot.draw(table)
        style.save(figure, out, plot.name, f"{run.name}: {plot.title}")
    return {"name": plot.name, "title": plot.title, "caption": plot.caption, "drawn": not table.empty}
