"""`trace_page`: coloured traces of a few trajectories as one self-contained HTML page (the paper's figures 10 and 11).

A seeded draw selects the trajectories of each kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.entropy.entropy import REFLECTION_WINDOW, mark_high, zones
from analysis.inputs.samples import PRIVATE, TRAJECTORY
from analysis.report.page import render
from config.model import AnalysisSection

KINDS = (
    ("A correct answer after a failed tool call", "error", True),
    ("A correct answer after tool calls that worked", "ok", True),
    ("A wrong answer", None, False),
)
MAX_TOKENS = 1200
"""Tokens of a trajectory on the page; the page marks where it cuts a longer one."""

Key = tuple[str, str, int]


def choose_traces(tokens: pd.DataFrame, seed: int) -> list[tuple[str, Key]]:
    """One trajectory of each kind that exists, drawn by seed; private benchmarks are left out."""
    table = tokens[~tokens["benchmark"].isin(PRIVATE)]
    if table.empty:
        return []
    groups = table.groupby(TRAJECTORY, sort=True)
    facts = pd.DataFrame(
        {
            "correct": groups["correct"].first(),
            "error": groups["after_tool"].agg(lambda s: bool((s == "error").any())),
            "ok": groups["after_tool"].agg(lambda s: bool((s == "ok").any() and not (s == "error").any())),
        }
    )
    rng = np.random.default_rng(seed)
    chosen: list[tuple[str, Key]] = []
    for title, status, correct in KINDS:
        fits = facts[(facts["correct"] == correct) & (facts[status] if status else True)]
        keys = [key for key in fits.index.tolist() if key not in [k for _, k in chosen]]
        if keys:
            chosen.append((title, keys[int(rng.integers(len(keys)))]))
    return chosen


def trace_page(
    tokens: pd.DataFrame,
    settings: AnalysisSection,
    responses: Mapping[tuple[str, str, int, int], str],
    run: str,
) -> str:
    """Render the page.

    Args:
        tokens: Token table of one checkpoint.
        settings: Threshold, window, seed.
        responses: (benchmark, problem, sample, turn) -> text of the tool response that ended that turn.
        run: Name of the run, for the title.
    """
    traces = []
    for title, key in choose_traces(tokens, settings.seed):
        rows = tokens[(tokens[TRAJECTORY] == list(key)).all(axis=1)]
        traces.append(_trace(title, key, rows, settings, responses))
    checkpoint = str(tokens["checkpoint"].iloc[0])
    return render(
        "trace.html",
        run=run,
        checkpoint=checkpoint,
        traces=traces,
        settings=settings,
        reflection_window=REFLECTION_WINDOW,
    )


def responses_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int, int], str]:
    """Tool responses of a samples file, as short text."""
    found = {}
    for row in rows:
        for number, turn in enumerate(row["turns"]):
            if turn["result"]:
                found[row["benchmark"], row["problem"], row["sample"], number] = _response(turn["result"])
    return found


def _response(result: Mapping[str, Any]) -> str:
    parts = [result.get("stdout") or "", result.get("value") or "", result.get("stderr") or ""]
    if result.get("error"):
        parts.append(f"{result['error']['type']}: {result['error']['message']}")
    text = "\n".join(part.strip() for part in parts if part and part.strip())
    return f"[{result['status']}] {text[:400]}"


def _trace(
    title: str,
    key: Key,
    rows: pd.DataFrame,
    settings: AnalysisSection,
    responses: Mapping[tuple[str, str, int, int], str],
) -> dict[str, Any]:
    high = mark_high(rows, settings.top_entropy_frac)
    zone = zones(rows)
    # Share of the trajectory's tokens with higher entropy: the slider compares with it.
    rank = rows["entropy"].rank(ascending=False, method="first") / len(rows)
    share = {i: float(value) for i, value in rank.items()}
    turns: list[dict[str, Any]] = []
    shown = rows.head(MAX_TOKENS)
    for number, part in shown.groupby("turn", sort=True):
        before = (*key, int(str(number)) - 1)
        status = part["after_tool"].iloc[0]
        response = responses.get(before, f"[{status}]") if status else None
        cells = [_cell(part.loc[i].to_dict(), zone[i], bool(high[i]), share[i]) for i in part.index.tolist()]
        turns.append({"response": response, "cells": cells})
    return {
        "title": title,
        "problem": key[1],
        "sample": key[2],
        "num_tokens": len(rows),
        "num_cut": len(rows) - len(shown),
        "turns": turns,
    }


def _cell(row: Mapping[Any, Any], zone: str, high: bool, share: float) -> dict[str, Any]:
    numbers = f"H {row['entropy']:.2f} nats, p {math.exp(row['logprob']):.2f}, rank {row['rank']}, {zone}"
    return {
        "text": row["text"] or f"<{row['token_id']}>",
        "zone": zone,
        "high": high,
        "share": round(float(share), 4),
        "alpha": round(min(1.0, 0.25 + 0.35 * row["entropy"]), 2),
        "title": numbers,
    }
