"""`draw`: pass@k against k, with a panel per temperature and a line per checkpoint."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.experiments.sampling_grid import POOLED
from records.stages import CHECKPOINTS


def draw(table: pd.DataFrame) -> Figure:
    """Checkpoints of the run itself, all rings together; bands are intervals over questions."""
    pooled = table[table["benchmark"] == POOLED]
    temperatures = sorted(set(pooled["temperature"]))
    names = [name for name in CHECKPOINTS if name in set(pooled["member"])]
    figure, panels = style.new_figure(1, len(temperatures), height=2.6)
    for axes, temperature in zip(panels, temperatures, strict=True):
        for name, color in zip(names, style.SERIES, strict=False):
            part = pooled[(pooled["member"] == name) & (pooled["temperature"] == temperature)].sort_values(
                "k"
            )
            label = style.CHECKPOINT_LABELS[name]
            axes.plot(part["k"], part["value"], color=color, marker="o", markersize=3, label=label)
            axes.fill_between(part["k"], part["low"], part["high"], color=color, alpha=0.12, linewidth=0)
        sizes = sorted(set(pooled["k"]))
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(k) for k in sizes])
        axes.set_ylim(0, 1)
        axes.set_title(f"T = {temperature:g}")
        axes.set_xlabel("k")
        style.as_percent(axes)
    panels[0].set_ylabel("pass@k")
    panels[-1].legend(loc="lower right")
    return figure
