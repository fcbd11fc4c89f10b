"""`PLOT`: the entropy of sampled tokens, by segment (the paper's section 5.4; arXiv 2506.01939, figure 2)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.drawing.plot import Plot, Section
from analysis.entropy.entropy import REASONING, choose_trajectories
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.inputs.samples import read_scored
from config.model import AnalysisSection

BINS = 40
GROUPS = (("reasoning", style.BLUE), ("tool call", style.ORANGE), ("answer", style.GREEN))


def table(run: Run, settings: AnalysisSection, reference: Reference) -> pd.DataFrame:
    """Counts per bin and segment of the last scored checkpoint, with the top-share threshold."""
    files = run.token_files()
    if not files:
        return pd.DataFrame()
    checkpoint = list(files)[-1]
    tokens = choose_trajectories(read_scored(run, checkpoint), settings.num_trajectories, settings.seed)
    edges = np.linspace(0, max(float(tokens["entropy"].max()), 0.1), BINS + 1)
    group = tokens["segment"].map(_group)
    rows = []
    for name, part in tokens.groupby(group):
        counts = np.histogram(part["entropy"], edges)[0]
        rows += [
            {"segment": name, "low": low, "high": high, "num_tokens": int(n)}
            for low, high, n in zip(edges, edges[1:], counts, strict=False)
        ]
    threshold = float(np.quantile(tokens["entropy"], 1 - settings.top_entropy_frac))
    return pd.DataFrame(rows).assign(
        checkpoint=checkpoint, threshold=threshold, top_frac=settings.top_entropy_frac
    )


def _group(segment: str) -> str:
    if segment in REASONING:
        return "reasoning"
    return {"tool_call": "tool call", "answer": "answer"}.get(segment, "other")


def draw(table: pd.DataFrame) -> Figure:
    """Left: counts on a log axis. Right: share of each segment's tokens above an entropy."""
    figure, (left, right) = style.new_figure(1, 2, height=2.7)
    for name, color in GROUPS:
        part = table[table["segment"] == name]
        if part.empty:
            continue
        edges = [*part["low"], part["high"].iloc[-1]]
        left.stairs(part["num_tokens"], edges, color=color, label=name, linewidth=1.4)
        above = part["num_tokens"][::-1].cumsum()[::-1] / part["num_tokens"].sum()
        right.step(part["low"], above, color=color, where="post")
    for axes in (left, right):
        axes.axvline(table["threshold"].iloc[0], color=style.MUTED, linestyle=(0, (4, 3)), linewidth=1)
        axes.set_xlabel("entropy, nats")
    left.set_yscale("log")
    left.set_title("Tokens per bin (log axis)")
    left.legend()
    right.set_title("Share of tokens above")
    right.set_ylim(0, 1)
    style.as_percent(right)
    right.annotate(
        f"top {table['top_frac'].iloc[0]:.0%} of all",
        (table["threshold"].iloc[0], 0.93),
        xytext=(4, 0),
        textcoords="offset points",
        color=style.MUTED,
        fontsize=8,
    )
    return figure


PLOT = Plot(
    name="entropy_histogram",
    section=Section.ENTROPY,
    place=20,
    title="Entropy of sampled tokens",
    caption="Entropy over the whole vocabulary at T = 1 of every sampled token, by segment. Tool responses are not "
    "sampled and not counted. Dashed: the threshold above which the top share of all tokens lies.",
    absent="no token table is stored (python -m trainer score)",
    table=table,
    draw=draw,
)
