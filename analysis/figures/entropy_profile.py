"""`PLOT`: mean entropy against the distance from the tool response, to show reflection tokens."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.entropy.entropy import choose_trajectories, profile
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.inputs.samples import read_scored
from config.model import AnalysisSection

LINES = (
    ("first_turn", "start of the first turn (control)", style.MUTED),
    ("ok", "after a call that worked", style.BLUE),
    ("error", "after a call that failed", style.ORANGE),
)


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """The profile of each scored checkpoint."""
    frames = []
    for checkpoint in run.token_files():
        tokens = choose_trajectories(read_scored(run, checkpoint), settings.num_trajectories, settings.seed)
        frames.append(profile(tokens, settings).assign(checkpoint=checkpoint))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def draw(table: pd.DataFrame) -> Figure:
    """One panel per checkpoint, one line per kind of tool response."""
    checkpoints = list(dict.fromkeys(table["checkpoint"]))
    figure, panels = style.new_figure(1, len(checkpoints), height=2.9)
    top = 1.05 * float(table["high"].max())
    for number, (axes, checkpoint) in enumerate(zip(panels, checkpoints, strict=True)):
        for name, label, color in LINES:
            part = table[(table["checkpoint"] == checkpoint) & (table["series"] == name)]
            axes.plot(part["distance"], part["mean"], color=color, label=label)
            axes.fill_between(
                part["distance"].astype(float),
                part["low"],
                part["high"],
                color=color,
                alpha=0.18,
                linewidth=0,
            )
        axes.set_ylim(0, top)
        axes.set_title(style.CHECKPOINT_LABELS.get(str(checkpoint), str(checkpoint)))
        axes.set_xlabel("tokens since the turn began")
        if number == 0:
            axes.set_ylabel("mean entropy, nats")
            axes.legend()
    return figure


PLOT = Plot(
    name="entropy_profile",
    section=Section.ENTROPY,
    place=10,
    title="Entropy after a tool response",
    caption="Mean entropy of reasoning tokens against their distance from the tool response, by its status; bands are "
    "95% intervals over questions. Grey: reasoning tokens of the first turn, where no tool has answered: only "
    "what lies above it points to reflection on the response.",
    absent="no token table is stored (python -m trainer score)",
    table=table,
    draw=draw,
)
