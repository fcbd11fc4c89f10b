"""The figures of the report; each module of this folder declares one as `PLOT`.

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
