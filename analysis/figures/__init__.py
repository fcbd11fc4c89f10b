"""The figures of the report, one file each: a module here declares `PLOT` under the name of its file.

- `arms`: `table_of`, `draw`
"""

from __future__ import annotations

from analysis.drawing.plot import Plot, Section
from records.declarations import declared

_SECTIONS = list(Section)
PLOTS = tuple(
    sorted(
        declared(__name__, "PLOT", Plot),
        key=lambda plot: (_SECTIONS.index(plot.section), plot.place, plot.name),
    )
)
"""In the order of the page."""

__all__ = ["PLOTS"]
