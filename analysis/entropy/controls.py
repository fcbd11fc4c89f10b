"""`controls`: other causes of uncertainty in the first tokens after a tool response.

A control without tokens, or with the same tokens as its contrast, decides nothing: it is marked with the reason and
not judged. Two rows of one measurement would count twice in Holm's family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.entropy.entropy import (
    REASONING,
    REFLECTION_WINDOW,
    contrast_of,
    mark_high,
    zone_contrast,
    zones,
)
from analysis.inputs.samples import TRAJECTORY
from config.model import AnalysisSection
from records import statistics

MIN_QUESTIONS = 5
"""The least number of questions for a contrast; fewer do not represent similar questions."""
LATER_TURNS = "later_turn_start"
FIRST_TURN = "first_turn_start"


@dataclass(frozen=True, slots=True)
class NotAvailable:
    """The reason why these tokens allow no contrast."""

    reason: str


def position_in_turn(tokens: pd.DataFrame) -> pd.Series:
    """Return the position of each token in its turn, from 0."""
    return tokens.groupby([*TRAJECTORY, "turn"]).cumcount()


def guarded_contrast(
    tokens: pd.DataFrame, a: str, b: str, settings: AnalysisSection
) -> dict[str, Any] | NotAvailable:
    """Return mean entropy in zone b minus zone a, unless one of them holds only starts of first turns.

    Reasoning wholly within the first W tokens of a turn is no 'other reasoning': the difference would compare two kinds
    of turn start.
    """
    zone = zones(tokens)
    for name in (a, b):
        if name == "forking":
            beyond = (zone == name) & (position_in_turn(tokens) >= REFLECTION_WINDOW)
            if tokens["problem"][beyond].nunique() < MIN_QUESTIONS:
                return NotAvailable(
                    f"reasoning outside the first {REFLECTION_WINDOW} tokens of a turn is found in "
                    f"{tokens['problem'][beyond].nunique()} questions; {MIN_QUESTIONS} are needed"
                )
    found = zone_contrast(tokens, zone, a, b, settings)
    if found is None or found["num_questions"] < MIN_QUESTIONS:
        return NotAvailable(f"fewer than {MIN_QUESTIONS} questions have tokens both {a} and {b}")
    return found


def turn_start_contrast(tokens: pd.DataFrame, settings: AnalysisSection) -> dict[str, Any] | NotAvailable:
    """Return reflection minus the same positions of later turns without a tool response, paired by question.

    Both are starts of later turns, so they differ only by the tool's answer. The difference is taken position by
    position: one side may be short, and entropy falls along a turn.
    """
    place = position_in_turn(tokens)
    near = tokens["segment"].isin(REASONING) & (place < REFLECTION_WINDOW)
    answered = near & tokens["distance"].notna()
    control = near & tokens["distance"].isna() & (tokens["turn"] > 0)
    if not control.any():
        return NotAvailable("no later turn begins without a tool response before it")
    side = pd.Series(np.where(answered, "b", "a"), index=tokens.index)[answered | control]
    means = (
        tokens["entropy"][answered | control]
        .groupby([tokens["problem"], place, side])
        .mean()
        .unstack()
        .reindex(columns=["a", "b"])
        .dropna()
    )
    by_question = means.groupby(level="problem").mean()
    if len(by_question) < MIN_QUESTIONS:
        return NotAvailable(
            f"{len(by_question)} questions have reasoning at one position both after a tool response and without; "
            f"{MIN_QUESTIONS} are needed"
        )
    return contrast_of(by_question["a"], by_question["b"], LATER_TURNS, "reflection", settings)


CONTRASTS = (("forking", "reflection"), ("coding", "forking"))
"""Zones a and b whose mean entropies are compared, b minus a."""


def contrasts_of(tokens: pd.DataFrame, settings: AnalysisSection) -> dict[str, list[dict[str, Any]]]:
    """Return the content of entropy.json: contrasts, contrasts that are not available with the reason, controls."""
    found = {pair: guarded_contrast(tokens, *pair, settings) for pair in CONTRASTS}
    return {
        "contrasts": [one for one in found.values() if not isinstance(one, NotAvailable)],
        "not_available": [
            {"a": a, "b": b, "reason": one.reason}
            for (a, b), one in found.items()
            if isinstance(one, NotAvailable)
        ],
        "controls": controls(tokens, settings),
    }


def controls(tokens: pd.DataFrame, settings: AnalysisSection) -> list[dict[str, Any]]:
    """Return every control of reflection against other reasoning, with its numbers or the reason for their absence."""
    zone = zones(tokens)
    start = (
        (zone == "forking") & tokens["distance"].isna() & (tokens["turn"] == 0)
        & (position_in_turn(tokens) < REFLECTION_WINDOW)
    )  # fmt: skip
    if bool(((zone == "forking") == start).all()):
        first: dict[str, Any] | NotAvailable = NotAvailable(
            "all other reasoning is the start of a first turn: this control is the contrast itself"
        )
    else:
        found = zone_contrast(tokens, zone.mask(start, FIRST_TURN), FIRST_TURN, "reflection", settings)
        first = found or NotAvailable("no question has a start of a first turn and reflection")
    rows = {LATER_TURNS: turn_start_contrast(tokens, settings), FIRST_TURN: first}
    return [_row(name, found) for name, found in rows.items()]


def _row(name: str, found: Mapping[str, Any] | NotAvailable) -> dict[str, Any]:
    head = {"control": name, "against": "reflection"}
    if isinstance(found, NotAvailable):
        return head | {"available": False, "reason": found.reason}
    return head | {"available": True, **found}


def zone_lift(tokens: pd.DataFrame, zone: str, settings: AnalysisSection) -> dict[str, float] | None:
    """Return how over-represented a zone is among the high-entropy tokens: lift, interval, bootstrap p against 1.

    Lift is the zone's share of high tokens over the share of high tokens overall (`analysis.entropy.entropy.shares`).
    p is twice the smaller share of resamples of questions on one side of 1, counting one more, so it is never 0.
    """
    high = mark_high(tokens, settings.top_entropy_frac).to_numpy()
    inside = (zones(tokens) == zone).to_numpy()
    if not inside.any() or not high.any():
        return None
    codes, questions = pd.factorize(tokens["problem"], sort=True)
    counts = np.column_stack(
        [
            np.bincount(codes[mask], minlength=len(questions))
            for mask in (inside, inside & high, high, codes >= 0)
        ]
    ).astype(float)
    weights = statistics.resample_weights(
        len(questions), seed=settings.seed, resamples=settings.bootstrap_draws
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = _ratio(weights @ counts)
    drawn = drawn[np.isfinite(drawn)]
    if not drawn.size:
        return None
    low, high_bound = np.quantile(drawn, [(1 - settings.confidence) / 2, (1 + settings.confidence) / 2])
    tail = 1 + min(int((drawn <= 1).sum()), int((drawn >= 1).sum()))
    return {
        "value": float(_ratio(counts.sum(0, keepdims=True))[0]),
        "low": float(low),
        "high": float(high_bound),
        "p": min(1.0, 2 * tail / (drawn.size + 1)),
        "num_questions": len(questions),
        "num_tokens": int(inside.sum()),
    }


def _ratio(counts: np.ndarray) -> np.ndarray:
    """Columns: tokens of the zone, high ones of it, all high ones, all tokens."""
    return (counts[:, 1] / counts[:, 0]) / (counts[:, 2] / counts[:, 3])
