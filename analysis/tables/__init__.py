"""The tables of the report, in the order of the page."""

from __future__ import annotations

from analysis.tables import arms, beyond, main, sft, stages

GRIDS = (main.grid, stages.grid, sft.grid, beyond.grid, sft.behaviour_grid, arms.grid)
