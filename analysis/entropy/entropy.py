"""`study`: the tokens that a policy is unsure of: forking, reflection and coding tokens (paper section 5.4).

The paper shows two coloured traces; the definitions below make the same tokens countable. The input is a token table:
one row per sampled token with the entropy of its position over the full vocabulary, nats, T = 1.

- high: among the top 20% of its trajectory (ceil; ties to the earlier token).
- reflection zone: reasoning tokens among the first W after a tool response.
- forking: high reasoning tokens outside that zone; reflection: high ones inside; coding: high ones in tool calls.

Every interval resamples questions, because tokens of one trajectory, and trajectories of one question, are
dependent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from analysis.entropy.agreement import cliffs_delta, cohen_kappa, jaccard
from analysis.entropy.lexicon import label_tokens
from analysis.inputs.samples import TRAJECTORY
from config.model import AnalysisSection
from records import statistics

REASONING = frozenset({"reason", "post_tool_reasoning"})
CLASSES = ("forking", "reflection", "coding", "answer", "other")
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4)
WINDOWS = (1, 2, 4, 8, 12, 16, 24, 32, 64)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99)
PROFILE_LENGTH = 48
"""Number of distances in the profile."""
PROFILE_MIN_QUESTIONS = 5
"""The profile leaves out a distance that fewer questions reach."""
MIN_COUNT = 5
"""Tokens rarer than this are not in the list of tokens with the highest and lowest mean entropy."""

REFLECTION_WINDOW = 12
"""First so many reasoning tokens after a tool response count as reflection; the paper names no number, `sweeps` tries
others."""

Floats = statistics.Floats


def choose_trajectories(tokens: pd.DataFrame, num: int, seed: int) -> pd.DataFrame:
    """The tokens of `num` trajectories drawn without replacement; all of them when there are fewer."""
    keys = tokens[TRAJECTORY].drop_duplicates().sort_values(TRAJECTORY, ignore_index=True)
    if len(keys) > num:
        drawn = np.random.default_rng(seed).choice(len(keys), num, replace=False)
        keys = keys.iloc[np.sort(drawn)]
    return tokens.merge(keys, on=TRAJECTORY).sort_values([*TRAJECTORY, "index"], ignore_index=True)


def mark_high(tokens: pd.DataFrame, frac: float) -> pd.Series:
    """True for the ceil(frac x n) highest-entropy tokens of each trajectory; ties go to the earlier token.

    >>> frame = pd.DataFrame({"benchmark": "b", "problem": "p", "sample": 0, "index": range(6),
    ...                       "entropy": [0.1, 2.0, 0.3, 2.0, 0.2, 0.0]})
    >>> mark_high(frame, 0.2).tolist()  # ceil(1.2) = 2
    [False, True, False, True, False, False]
    """
    order = tokens.sort_values([*TRAJECTORY, "entropy", "index"], ascending=[True, True, True, False, True])
    rank = order.groupby(TRAJECTORY, sort=False).cumcount()
    size = order.groupby(TRAJECTORY, sort=False)["entropy"].transform("size")
    # 1e-9: 0.2 * 15 is 3.0000000000000004, whose ceiling is not 3.
    return (rank < np.ceil(frac * size - 1e-9)).reindex(tokens.index)


def mark_high_shared(tokens: pd.DataFrame, frac: float) -> pd.Series:
    """Return the same mark with one threshold for the tokens of all trajectories (arXiv 2506.01939)."""
    count = int(np.ceil(frac * len(tokens) - 1e-9))
    order = np.argsort(-tokens["entropy"].to_numpy(), kind="stable")[:count]
    high = np.zeros(len(tokens), dtype=bool)
    high[order] = True
    return pd.Series(high, index=tokens.index)


def zones(tokens: pd.DataFrame, window: int = REFLECTION_WINDOW) -> pd.Series:
    """Return the zone of each token, independent of its entropy: forking, reflection, coding, answer or other.

    `distance` counts tokens since the last tool response; 0 is the first token after it.
    """
    reasoning = tokens["segment"].isin(REASONING)
    near = tokens["distance"].notna() & (tokens["distance"] < window)
    zone = pd.Series("other", index=tokens.index, dtype=object)
    zone[reasoning] = "forking"
    zone[reasoning & near] = "reflection"
    zone[tokens["segment"] == "tool_call"] = "coding"
    zone[tokens["segment"] == "answer"] = "answer"
    return zone


def shares(
    tokens: pd.DataFrame, high: pd.Series, group: pd.Series, settings: AnalysisSection
) -> pd.DataFrame:
    """Per group: its share of all tokens, of high tokens, and their ratio (lift) with a question-clustered interval.

    Lift 1 means the group is as uncertain as the average token; a share of high tokens alone decides nothing, because
    long segments hold many tokens of any kind.
    """
    codes, questions = pd.factorize(tokens["problem"], sort=True)
    names = sorted(group.unique())
    count = np.zeros((len(questions), len(names)))
    top = np.zeros_like(count)
    for j, name in enumerate(names):
        inside = (group == name).to_numpy()
        count[:, j] = np.bincount(codes[inside], minlength=len(questions))
        top[:, j] = np.bincount(codes[inside & high.to_numpy()], minlength=len(questions))
    weights = statistics.resample_weights(
        len(questions), seed=settings.seed, resamples=settings.bootstrap_draws
    )
    drawn = _lift(weights @ count, weights @ top)
    value = _lift(count.sum(0, keepdims=True), top.sum(0, keepdims=True))[0]
    low, high_bound = _quantiles(drawn, settings.confidence)
    mean = tokens.groupby(group)["entropy"].mean()
    return pd.DataFrame(
        {
            "group": names,
            "num_tokens": count.sum(0).astype(int),
            "share_of_tokens": count.sum(0) / count.sum(),
            "share_of_high": top.sum(0) / max(top.sum(), 1),
            "mean_entropy": [float(mean[name]) for name in names],
            "lift": value,
            "lift_low": low,
            "lift_high": high_bound,
        }
    )


def _lift(count: Floats, top: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (top / count) / (top.sum(1, keepdims=True) / count.sum(1, keepdims=True))


def _quantiles(drawn: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Column-wise bounds; NaN draws (a group absent from a resample) are left out."""
    bounds = [(1 - confidence) / 2, (1 + confidence) / 2]
    with np.errstate(invalid="ignore"):
        low, high = np.nanquantile(drawn, bounds, axis=0)
    return low, high


def profile(tokens: pd.DataFrame, settings: AnalysisSection, length: int = PROFILE_LENGTH) -> pd.DataFrame:
    """Mean entropy of reasoning tokens against their distance from the tool response, split by its status.

    The series `first_turn` is the control: reasoning tokens of the first turn at the same distance from the start of
    their turn. If it is as high, the rise comes from the start of a turn and not from the tool.

    Returns:
        Columns series (ok, error, first_turn), distance, mean, low, high, num_tokens, num_questions.
    """
    table = tokens.assign(position=tokens.groupby([*TRAJECTORY, "turn"]).cumcount())
    table = table[table["segment"].isin(REASONING)]
    frames = [
        _profile_series(table[table["after_tool"] == "ok"], "distance", "ok", settings, length),
        _profile_series(table[table["after_tool"] == "error"], "distance", "error", settings, length),
        _profile_series(table[table["distance"].isna()], "position", "first_turn", settings, length),
    ]
    return pd.concat(frames, ignore_index=True)


def _profile_series(
    table: pd.DataFrame, column: str, name: str, settings: AnalysisSection, length: int
) -> pd.DataFrame:
    columns = ["series", "distance", "mean", "low", "high", "num_tokens", "num_questions"]
    table = table[table[column] < length]
    if table.empty:
        return pd.DataFrame({c: pd.Series(dtype="object" if c == "series" else "float64") for c in columns})
    codes, questions = pd.factorize(table["problem"], sort=True)
    at = (codes, table[column].astype(int).to_numpy())
    total, count = np.zeros((len(questions), length)), np.zeros((len(questions), length))
    np.add.at(total, at, table["entropy"].to_numpy())
    np.add.at(count, at, 1.0)
    weights = statistics.resample_weights(
        len(questions), seed=settings.seed, resamples=settings.bootstrap_draws
    )
    reached = (count > 0).sum(0)
    kept = np.flatnonzero(reached >= min(PROFILE_MIN_QUESTIONS, len(questions)))
    with np.errstate(invalid="ignore"):
        drawn = (weights @ total[:, kept]) / (weights @ count[:, kept])
    low, high = _quantiles(drawn, settings.confidence)
    mean = total[:, kept].sum(0) / count[:, kept].sum(0)
    values = [name, kept, mean, low, high, count[:, kept].sum(0).astype(int), reached[kept]]
    return pd.DataFrame(dict(zip(columns, values, strict=True)))


def zone_contrast(
    tokens: pd.DataFrame, zone: pd.Series, a: str, b: str, settings: AnalysisSection
) -> dict[str, Any] | None:
    """Mean entropy in zone b minus zone a, paired by question; None when no question has both.

    Args:
        tokens: Token table.
        zone: Zone of each token.
        a: Reference zone.
        b: Zone compared with it.
        settings: Seed, draws, level.
    """
    means = tokens.groupby([tokens["problem"], zone])["entropy"].mean().unstack()
    if a not in means or b not in means:
        return None
    both = means[[a, b]].dropna()
    if both.empty:
        return None
    return contrast_of(both[a], both[b], a, b, settings)


def contrast_of(
    left: pd.Series, right: pd.Series, a: str, b: str, settings: AnalysisSection
) -> dict[str, Any]:
    """Right minus left, one mean per question on each side, both in the same order of questions."""
    difference = statistics.paired_difference(
        {str(q): [x] for q, x in left.items()},
        {str(q): [x] for q, x in right.items()},
        seed=settings.seed,
        confidence=settings.confidence,
        resamples=settings.bootstrap_draws,
    )
    delta = cliffs_delta(left.to_numpy(), right.to_numpy())
    return {"a": a, "b": b, **asdict(difference), "cliffs_delta": delta}


def sweeps(tokens: pd.DataFrame, settings: AnalysisSection) -> pd.DataFrame:
    """Return the lift of each zone for every threshold, window and kind of threshold, to show which choice matters."""
    rows = []
    grid = [("own", frac, REFLECTION_WINDOW) for frac in THRESHOLDS]
    grid += [("shared", frac, REFLECTION_WINDOW) for frac in THRESHOLDS]
    grid += [("own", settings.top_entropy_frac, window) for window in WINDOWS]
    for kind, frac, window in dict.fromkeys(grid):
        high = mark_high(tokens, frac) if kind == "own" else mark_high_shared(tokens, frac)
        table = shares(tokens, high, zones(tokens, window), settings)
        rows.append(table.assign(threshold=kind, top_frac=frac, window=window))
    return pd.concat(rows, ignore_index=True)


def label_agreement(tokens: pd.DataFrame, high: pd.Series) -> pd.DataFrame:
    """Return the agreement of word lists with entropy among reasoning tokens.

    precision: share of labelled tokens that are high; recall: share of high tokens that are labelled; lift:
    precision over the share of high tokens; kappa: agreement beyond chance.
    """
    zone = zones(tokens)
    rows = []
    for name in ("forking", "reflection"):
        label = lexical(tokens, reflection=name == "reflection")
        inside = zone == name
        if not inside.any():
            continue
        word, top = label[inside].to_numpy(), high[inside].to_numpy()
        precision = float(top[word].mean()) if word.any() else 0.0
        rows.append(
            {
                "list": name,
                "num_tokens": int(inside.sum()),
                "num_labelled": int(word.sum()),
                "num_high": int(top.sum()),
                "precision": precision,
                "recall": float(word[top].mean()) if top.any() else 0.0,
                "lift": precision / float(top.mean()) if top.any() else 0.0,
                "kappa": cohen_kappa(word.tolist(), top.tolist()),
            }
        )
    return pd.DataFrame(rows)


def lexical(tokens: pd.DataFrame, *, reflection: bool) -> pd.Series:
    """Return which tokens touch a listed word, turn by turn."""
    labels = pd.Series(False, index=tokens.index)
    for _, turn in tokens.groupby([*TRAJECTORY, "turn"], sort=False):
        labels.loc[turn.index] = np.array(label_tokens(turn["text"].tolist(), reflection=reflection))
    return labels


def extreme_tokens(tokens: pd.DataFrame, num: int = 30, min_count: int = MIN_COUNT) -> pd.DataFrame:
    """Return the frequent tokens with the highest and the lowest mean entropy, for word lists."""
    table = tokens.groupby("token_id").agg(
        text=("text", "first"), num=("entropy", "size"), mean_entropy=("entropy", "mean")
    )
    table = table[table["num"] >= min_count].reset_index()
    table = table.sort_values(["mean_entropy", "token_id"], ascending=[False, True])
    top, bottom = table.head(num), table.tail(num)
    return pd.concat([top.assign(end="high"), bottom.assign(end="low")], ignore_index=True)


def quantile_table(by_checkpoint: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Entropy quantiles of each checkpoint, over all tokens and per segment."""
    rows = []
    for checkpoint, tokens in by_checkpoint.items():
        parts = [("all", tokens), *((str(name), part) for name, part in tokens.groupby("segment"))]
        for segment, part in parts:
            values = np.quantile(part["entropy"], QUANTILES)
            row = {f"q{int(100 * q):02d}": float(v) for q, v in zip(QUANTILES, values, strict=True)}
            rows.append(
                {
                    "checkpoint": checkpoint,
                    "segment": segment,
                    "num_tokens": len(part),
                    "mean": float(part["entropy"].mean()),
                    "below_0_01_frac": float((part["entropy"] < 0.01).mean()),
                    **row,
                }
            )
    return pd.DataFrame(rows)


def stage_changes(
    by_checkpoint: Mapping[str, pd.DataFrame], settings: AnalysisSection
) -> list[dict[str, Any]]:
    """Each checkpoint against the one before: change of mean entropy paired by question, and top-set overlap.

    Overlap (Jaccard of the high sets) exists only where both scored the same text; other pairs hold null.
    """
    changes = []
    names = list(by_checkpoint)
    for a, b in pairwise(names):
        left, right = by_checkpoint[a], by_checkpoint[b]
        means = [_question_outcomes(side) for side in (left, right)]
        change: dict[str, Any] = {"a": a, "b": b, "mean_change": None}
        if set(means[0]) & set(means[1]):
            difference = statistics.paired_difference(
                means[0],
                means[1],
                seed=settings.seed,
                confidence=settings.confidence,
                resamples=settings.bootstrap_draws,
            )
            change["mean_change"] = asdict(difference)
        changes.append(change | _same_text(left, right, settings.top_entropy_frac))
    return changes


def _question_outcomes(tokens: pd.DataFrame) -> dict[str, list[float]]:
    means = tokens.groupby(TRAJECTORY)["entropy"].mean().groupby("problem").mean()
    return {str(question): [float(value)] for question, value in means.items()}


def _same_text(left: pd.DataFrame, right: pd.DataFrame, frac: float) -> dict[str, Any]:
    key = [*TRAJECTORY, "index"]
    both = left.assign(high=mark_high(left, frac)).merge(
        right.assign(high=mark_high(right, frac)), on=[*key, "token_id"], suffixes=("_a", "_b")
    )
    # A few equal ids by chance do not make the same text.
    if len(both) < 0.9 * min(len(left), len(right)):
        return {"same_text": False, "top_overlap": None, "token_change_mean": None}
    sets = [set(both.index[both[f"high_{side}"]]) for side in ("a", "b")]
    change = float((both["entropy_b"] - both["entropy_a"]).mean())
    return {"same_text": True, "top_overlap": jaccard(sets[0], sets[1]), "token_change_mean": change}


def study(tokens: pd.DataFrame, settings: AnalysisSection) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Run the whole study of one checkpoint's token table.

    Returns:
        Numbers for JSON, and tables for CSV by name.
    """
    chosen = choose_trajectories(tokens, settings.num_trajectories, settings.seed)
    high = mark_high(chosen, settings.top_entropy_frac)
    zone = zones(chosen)
    tables = {
        "classes": shares(chosen, high, zone, settings),
        "segments": shares(chosen, high, chosen["segment"].astype(str), settings),
        "profile": profile(chosen, settings),
        "sweeps": sweeps(chosen, settings),
        "lexical": label_agreement(chosen, high),
        "tokens": extreme_tokens(chosen),
    }
    numbers: dict[str, Any] = {
        "settings": settings.model_dump() | {"reflection_window": REFLECTION_WINDOW},
        "entropy_source": "full vocabulary, T = 1, nats",
        "num_trajectories": len(chosen[TRAJECTORY].drop_duplicates()),
        "num_questions": int(chosen["problem"].nunique()),
        "num_tokens": len(chosen),
        "num_high": int(high.sum()),
        "mean_entropy": float(chosen["entropy"].mean()),
        "threshold_shared": float(np.quantile(chosen["entropy"], 1 - settings.top_entropy_frac)),
    }
    numbers |= {name: _records(tables[name]) for name in ("classes", "segments", "lexical")}
    return numbers, tables


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows: Sequence[Any] = table.to_dict("records")
    return [
        {str(k): None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}
        for row in rows
    ]
