"""`read_evaluation`: one evaluation folder, whose samples must match the summary and give its outcomes.

A summary names the sha256 of its samples, and holds the outcomes of every average. Both are checked, so that a broken,
cut, duplicated or exchanged file ends in one line and never in a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.inputs.sample_table import KEY, read_sample_table
from records.errors import ConfigError
from records.evaluation import POOLED, RINGS, EvaluationSummary, Outcomes, Score
from records.files import require_digest
from records.run_folder import SAMPLES, SUMMARY
from records.statistics import pass_at_k_by_question, pass_hat_k_by_question
from records.verdict import VerdictKind, reward_of

UNSAMPLED = frozenset({"shuffled_golds", "mute"})
"""Controls that regrade stored answers, or sample nothing: the samples file does not hold their outcomes."""
REMEDY = "evaluate the checkpoint again with python -m evaluation run"


@dataclass(frozen=True, slots=True)
class CheckedEvaluation:
    """A summary and its samples, checked against each other."""

    folder: Path
    summary: EvaluationSummary
    samples: pd.DataFrame
    """See `analysis.inputs.sample_table.read_sample_table`."""


def read_evaluation(folder: Path) -> CheckedEvaluation:
    """Read and check one folder.

    Raises:
        ConfigError: A file is missing or damaged, or the two disagree.
    """
    summary = EvaluationSummary.load(folder)
    samples = folder / SAMPLES
    require_digest(samples, summary.samples_sha256, folder / SUMMARY, REMEDY)
    found = CheckedEvaluation(folder, summary, read_sample_table(samples))
    _check_whole(found)
    _check_outcomes(found)
    return found


def check_published(found: CheckedEvaluation) -> None:
    """Check what a page of all scores requires: intervals around their values, pass@k of the outcomes.

    Raises:
        ConfigError: A row disagrees with its outcomes.
    """
    path = found.folder / SUMMARY
    outcomes: dict[tuple[object, ...], list[Outcomes]] = {}
    for score in found.summary.scores:
        if score.questions:
            outcomes.setdefault(_slice(score), []).append({q: list(v) for q, v in score.questions.items()})
    for score in found.summary.scores:
        if not score.low - 1e-9 <= score.value <= score.high + 1e-9:
            raise ConfigError(
                f"{path}: {_name(score)} is {score.value:.4f}, outside its own interval; {REMEDY}"
            )
        if score.metric.startswith(("pass@", "pass^")):
            k = int(score.metric[5:])
            rule = pass_at_k_by_question if score.metric[4] == "@" else pass_hat_k_by_question
            several = [o for o in outcomes.get(_slice(score), []) if min(map(len, o.values())) >= k]
            if not any(_same(np.mean(list(rule(o, k).values())), score.value) for o in several):
                raise ConfigError(
                    f"{path}: {_name(score)} is {score.value:.4f}, which its outcomes do not give; {REMEDY}"
                )


def _check_whole(found: CheckedEvaluation) -> None:
    """Check that every question has the samples 0 to k - 1 of its plan."""
    path = found.folder / SAMPLES
    counts = _plan_counts(found.summary.settings.plans, found.folder / SUMMARY)
    for about, part in _parts(found.samples):
        allowed = counts.get(about)
        if allowed is None:
            raise ConfigError(
                f"{path}: samples of {about[0]} at T = {about[2]:g}, control {about[1]}, which no plan of summary.json "
                f"asks for; {REMEDY}"
            )
        groups = part.groupby("problem", observed=True)["sample"]
        size, last = groups.size(), groups.max()
        bad = size[(last + 1 != size) | ~size.isin(allowed)]
        if len(bad):
            raise ConfigError(
                f"{path}: {len(bad)} questions of {about[0]} lack samples, the first is {bad.index[0]} with "
                f"{bad.iloc[0]} of {max(allowed)}; {REMEDY}"
            )


def _check_outcomes(found: CheckedEvaluation) -> None:
    """Check that the samples give the outcomes of every average of the summary, and that no other question has any."""
    path = found.folder / SUMMARY
    checkpoint = str(found.samples["checkpoint"].iloc[0])
    counts = _plan_counts(found.summary.settings.plans, path)
    parts = dict(_parts(found.samples))
    covered: set[tuple[str, str, float]] = set()
    for score in found.summary.scores:
        if score.checkpoint != checkpoint:
            raise ConfigError(
                f"{path}: a score of {score.checkpoint}, but the samples are of {checkpoint}; {REMEDY}"
            )
        if score.control in UNSAMPLED or not score.metric.startswith("avg@"):
            continue
        names = RINGS if score.benchmark == POOLED else (score.benchmark,)
        sources = [(name, score.control, score.temperature) for name in names]
        if any(source not in parts for source in sources):
            raise ConfigError(f"{path}: {_name(score)} has no samples in samples.parquet; {REMEDY}")
        sizes = sorted({k for source in sources for k in counts[source]})
        expected = [_outcomes([parts[source] for source in sources], score.grader, k) for k in sizes]
        given = {question: list(values) for question, values in score.questions.items()}
        if given not in expected:
            raise ConfigError(
                f"{path}: {_name(score)}: the outcomes are not those of samples.parquet"
                f"{_first_other(given, expected)}; {REMEDY}"
            )
        covered.update(sources)
    for source, part in parts.items():
        if source not in covered and _outcomes([part], "strict", 1):
            raise ConfigError(
                f"{path}: no score of {source[0]} at T = {source[2]:g}, control {source[1]}, though it was "
                f"sampled; {REMEDY}"
            )


def _plan_counts(plans: object, path: Path) -> dict[tuple[str, str, float], set[int]]:
    """Return (benchmark, control, T) -> samples that a question may have: k, and deep_k where some have more."""
    counts: dict[tuple[str, str, float], set[int]] = {}
    try:
        for plan in plans:  # type: ignore[attr-defined]
            for name in plan["benchmarks"]:
                for benchmark in RINGS if name == POOLED else (name,):
                    sizes = counts.setdefault(
                        (benchmark, str(plan["control"]), float(plan["temperature"])), set()
                    )
                    sizes |= {int(plan["k"]), max(int(plan["k"]), int(plan.get("deep_k") or 0))}
    except (TypeError, KeyError, ValueError) as error:
        raise ConfigError(f"{path}: a plan of its settings is not readable ({error}); {REMEDY}") from None
    return counts


def _parts(samples: pd.DataFrame) -> Iterator[tuple[tuple[str, str, float], pd.DataFrame]]:
    for _, part in samples.groupby(KEY[:3], observed=True):
        first = part.iloc[0]
        yield (str(first["benchmark"]), str(first["control"]), float(first["T"])), part


def _outcomes(parts: list[pd.DataFrame], grader: str, k: int) -> Outcomes:
    """Return question -> outcomes of its first k samples, for questions with as many; lost ones are left out."""
    found: Outcomes = {}
    column = f"verdict_{grader}"
    for part in parts:
        if column not in part:
            continue
        size = part.groupby("problem", observed=True)["sample"].transform("size")
        part = part[(size >= k) & (part["sample"] < k) & part[column].notna()]
        part = part[part[column] != VerdictKind.INFRA_FAILED].sort_values(["problem", "sample"])
        rewards = np.array([reward_of(VerdictKind(word)) for word in part[column].astype(str)], dtype=float)
        names = part["problem"].astype(str).to_numpy()
        edges = np.flatnonzero(names[1:] != names[:-1]) + 1
        for name, values in zip(
            names[[0, *edges]] if len(names) else [], np.split(rewards, edges), strict=False
        ):
            found[name] = values.tolist()
    return found


def _first_other(given: Outcomes, expected: list[Outcomes]) -> str:
    if not expected:
        return ""
    nearest = max(expected, key=lambda one: sum(given.get(q) == v for q, v in one.items()))
    others = sorted(q for q in {*given, *nearest} if given.get(q) != nearest.get(q))
    return f" ({len(others)} questions differ, the first is {others[0]})" if others else ""


def _slice(score: Score) -> tuple[object, ...]:
    return score.checkpoint, score.benchmark, score.temperature, score.control, score.grader


def _name(score: Score) -> str:
    return f"{score.benchmark} {score.metric} at T = {score.temperature:g} ({score.control}, {score.grader})"


def _same(a: Any, b: float) -> bool:
    return bool(abs(float(a) - b) <= 1e-9)
