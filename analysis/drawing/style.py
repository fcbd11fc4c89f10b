"""`styled` and `save`: colour-blind safe figures, with equal bytes for equal numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from records.files import write_bytes
from records.stages import STAGES

INK = "#222222"
MUTED = "#767676"
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
YELLOW = "#E69F00"
SKY = "#56B4E9"
PINK = "#CC79A7"
SERIES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY)
"""Okabe and Ito's palette."""

FULL_WIDTH = 7.2
"""Inches; two columns of a paper."""

FORMATS = ("pdf", "png", "svg")

RC: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "rstar2",
    "pdf.fonttype": 42,
}

CHECKPOINT_LABELS = {stage.name: stage.label for stage in STAGES}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style during one drawing, then restore the caller's settings."""
    with mpl.rc_context(RC):
        yield


def new_figure(rows: int = 1, columns: int = 1, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """Return a full-width figure and its axes, row by row, without global state: no window and no leak."""
    figure = Figure(figsize=(FULL_WIDTH, height * rows))
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for line in grid for axes in line]


def save(figure: Figure, folder: Path, name: str, title: str) -> None:
    """Write PDF, PNG and SVG without dates or versions in their metadata."""
    metadata = {
        "pdf": {"Title": title, "Creator": None, "Producer": None, "CreationDate": None},
        "png": {"Title": title, "Software": None},
        "svg": {"Title": title, "Creator": None, "Date": None},
    }
    # The layout is computed once: computing it per format costs a second each.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for suffix in FORMATS:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=suffix, metadata=metadata[suffix])
        write_bytes(folder / f"{name}.{suffix}", drawn.getvalue())


def no_data(reason: str) -> Figure:
    """Return a figure with the reason for missing data, so that a declared output always exists."""
    figure, (axes,) = new_figure(height=1.2)
    axes.axis("off")
    axes.text(0.5, 0.5, f"No data: {reason}", ha="center", va="center", color=MUTED, transform=axes.transAxes)
    return figure


def mark_stages(axes: Axes, steps: pd.Series, stages: pd.Series, *, label: bool = False) -> None:
    """Draw a line with the stage's name before the first step of each stage except the first."""
    firsts = steps.groupby(stages.to_numpy(), sort=False).min()
    for number, (stage, step) in enumerate(firsts.items()):
        if number:
            axes.axvline(step - 0.5, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
        if label:
            axes.text(
                step - 0.35,
                1.0,
                CHECKPOINT_LABELS.get(str(stage), str(stage)),
                transform=axes.get_xaxis_transform(),
                color=MUTED,
                fontsize=7.5,
                va="bottom",
            )


def as_percent(axes: Axes, *, x: bool = False) -> None:
    """Show an axis of fractions in percent."""
    axis = axes.xaxis if x else axes.yaxis
    axis.set_major_formatter(lambda value, _: f"{100 * value:g}%")


def few_ticks() -> MaxNLocator:
    """At most four ticks: for narrow panels."""
    return MaxNLocator(4)


def short_number() -> EngFormatter:
    """10000 as 10k."""
    return EngFormatter(sep="")


def whiskers(
    axes: Axes,
    at: Sequence[float],
    table: pd.DataFrame,
    *,
    color: str,
    label: str | None = None,
    horizontal: bool = False,
    marker: str = "o",
) -> None:
    """Points with intervals from columns value, low, high."""
    value, low, high = (table[name].to_numpy(dtype=float) for name in ("value", "low", "high"))
    # Rounding can put a mean outside its own interval by a last digit.
    error = [np.clip(value - low, 0, None), np.clip(high - value, 0, None)]
    style = {"fmt": marker, "color": color, "label": label, "markersize": 5, "capsize": 2.5, "linewidth": 1.3}
    if horizontal:
        axes.errorbar(value, at, xerr=error, **style)
    else:
        axes.errorbar(at, value, yerr=error, **style)
