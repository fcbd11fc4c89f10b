"""`GRIDS`: the tables of the report, in the order of the page.

- `grid`: `Grid`, `write`
- `arms`: `cell`, `cost_grid`, `endpoint_grid`
"""

from __future__ import annotations

from analysis.tables import arms, beyond, main, sft, stages

GRIDS = (main.grid, stages.grid, sft.grid, beyond.grid, sft.behaviour_grid, arms.grid)
