"""`compare_runs`: two runs, paired by question: what rose, what fell, and which flips come from the grader alone.

It reads both evaluations whole (`analysis.inputs.evaluation`): a samples file that does not match its summary ends the
command.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.claims.multiplicity import holm
from analysis.comparison.identity import Factor, identity_rows, prompt_factors, reasons, short
from analysis.inputs.evaluation import CheckedEvaluation, read_evaluation
from analysis.inputs.lineage import require_own
from analysis.inputs.runs import Run, find_score
from analysis.inputs.sample_table import KEY, graded, scored_samples
from config.model import AnalysisSection
from records.errors import ConfigError
from records.evaluation import Score
from records.statistics import paired_difference
from records.verdict import VerdictKind

BEHAVIOUR = (
    "response_len",
    "num_turns",
    "num_calls",
    "num_failed_calls",
    "truncated",
)
SHOWN_FACTORS = 12
"""Number of equal factors that the page lists by name; the JSON has all."""


def compare_runs(
    a: Run, b: Run, checkpoint: str, settings: AnalysisSection, *, margin: float, allow_mismatch: bool = False
) -> dict[str, Any]:
    """Compare every benchmark of a checkpoint that both runs evaluated.

    Raises:
        ConfigError: A damaged evaluation, nothing in common, or (without `allow_mismatch`) a difference other than the
            model: questions, prompt, tool, grader or data.
    """
    if not (math.isfinite(margin) and 0 < margin < 1):
        raise ConfigError(f"--margin {margin}: must be a fraction between 0 and 1, such as 0.02")
    left, right = (read_evaluation(_folder(run, checkpoint)) for run in (a, b))
    for run, found in ((a, left), (b, right)):
        require_own(run, found)
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} ({a.root})", f"{b.name} ({b.root})")
    pairs = comparable_scores(left.summary.scores, right.summary.scores, checkpoint)
    if not pairs:
        raise ConfigError(
            f"{names[0]} and {names[1]}: no benchmark of checkpoint {checkpoint} that both evaluated alike (same "
            "temperature, no control)"
        )
    benchmarks = [pair[0].benchmark for pair in pairs]
    identity = identity_rows(a, b, left, right)
    identity = sorted(
        [*identity, *prompt_factors(a, b, left.samples, right.samples, benchmarks)],
        key=lambda row: (row.same, not row.blocks),
    )
    mismatches = reasons(identity) + _other_questions(pairs)
    if mismatches and not allow_mismatch:
        raise ConfigError(
            f"{names[0]} and {names[1]} are not comparable: {'; '.join(mismatches)}; --allow-mismatch compares what "
            "they share"
        )
    rows = [_benchmark_row(one, other, settings) for one, other in pairs]
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
        row["verdict"] = verdict(row, margin, 1 - settings.confidence)
    return {
        "a": names[0],
        "b": names[1],
        "checkpoint": checkpoint,
        "margin": margin,
        "identity": [row.to_json() for row in identity],
        "mismatches": mismatches,
        "benchmarks": rows,
        **_sample_comparison(left, right),
        "regression": any(row["verdict"] == "worse" for row in rows),
    }


def _folder(run: Run, checkpoint: str) -> Path:
    folder = run.folder.evaluation(checkpoint)
    if folder not in run.evaluations():
        known = ", ".join(path.name for path in run.evaluations()) or "none"
        raise ConfigError(
            f"{run.root}: no benchmark of checkpoint {checkpoint} is evaluated; there are: {known}"
        )
    return folder


def verdict(row: Mapping[str, Any], margin: float, alpha: float) -> str:
    """Return better, worse, equivalent (interval inside the margin) or no_evidence, by the adjusted p.

    >>> verdict({"p_holm": 0.01, "value": -0.1, "low": -0.15, "high": -0.05}, 0.02, 0.05)
    'worse'
    >>> verdict({"p_holm": 0.6, "value": 0.0, "low": -0.01, "high": 0.01}, 0.02, 0.05)
    'equivalent'
    """
    if row["p_holm"] <= alpha and not row["low"] <= 0 <= row["high"]:
        return "better" if row["value"] > 0 else "worse"
    return "equivalent" if -margin < row["low"] and row["high"] < margin else "no_evidence"


def comparable_scores(a: Sequence[Score], b: Sequence[Score], checkpoint: str) -> list[tuple[Score, Score]]:
    """Return pairs of avg@k scores without a control: same benchmark and temperature, strict grader, with outcomes."""
    pairs = []
    for benchmark in sorted({s.benchmark for s in a if s.checkpoint == checkpoint}):
        left = find_score(list(a), checkpoint, benchmark)
        right = find_score(list(b), checkpoint, benchmark, temperature=left.temperature) if left else None
        if left and right and set(left.questions) & set(right.questions):
            pairs.append((left, right))
    return pairs


def _other_questions(pairs: Sequence[tuple[Score, Score]]) -> list[str]:
    found = []
    for left, right in pairs:
        only = [set(left.questions) - set(right.questions), set(right.questions) - set(left.questions)]
        if any(only):
            found.append(
                f"{left.benchmark} has other questions ({len(only[0])} only in the first, {len(only[1])} only in the "
                "second)"
            )
    return found


def _benchmark_row(left: Score, right: Score, settings: AnalysisSection) -> dict[str, Any]:
    difference = paired_difference(
        left.questions,
        right.questions,
        seed=settings.seed,
        confidence=settings.confidence,
        resamples=settings.bootstrap_draws,
    )
    return {
        "benchmark": left.benchmark,
        "temperature": left.temperature,
        "metric_a": left.metric,
        "metric_b": right.metric,
        "value_a": left.value,
        "value_b": right.value,
        **asdict(difference),
        "only_a": len(set(left.questions) - set(right.questions)),
        "only_b": len(set(right.questions) - set(left.questions)),
    }


def _sample_comparison(left: CheckedEvaluation, right: CheckedEvaluation) -> dict[str, Any]:
    """Compare flips, behaviour and lost samples of the avg@k samples; lost samples are in no mean and no flip."""
    scored = [scored_samples(side.samples) for side in (left, right)]
    kept = [graded(side) for side in scored]
    return {
        "lost": {name: len(all_) - len(part) for name, all_, part in zip("ab", scored, kept, strict=True)},
        "flips": flips(*kept),
        "behaviour": [
            {"what": name, "a": float(kept[0][name].mean()), "b": float(kept[1][name].mean())}
            for name in BEHAVIOUR
            if len(kept[0]) and len(kept[1])
        ],
    }


def flips(a: pd.DataFrame, b: pd.DataFrame) -> list[dict[str, Any]]:
    """Return samples whose strict verdict changed between right and not right.

    kind grader: the sampled ids are equal, so only the grader can have changed; kind model: they differ.
    """
    columns = [*KEY, "verdict_strict", "ids_hash"]
    words = dict.fromkeys(("benchmark", "control", "problem", "verdict_strict"), object)
    both = a[columns].astype(words).merge(b[columns].astype(words), on=KEY, suffixes=("_a", "_b"))
    was, now = (both[f"verdict_strict_{side}"] == VerdictKind.CORRECT for side in ("a", "b"))
    changed = both[was != now].sort_values(["benchmark", "problem", "sample"])
    return [
        {
            "benchmark": row["benchmark"],
            "problem": row["problem"],
            "sample": int(row["sample"]),
            "kind": "grader" if row["ids_hash_a"] == row["ids_hash_b"] else "model",
            "direction": "newly_right" if row["verdict_strict_b"] == VerdictKind.CORRECT else "newly_wrong",
            "was": str(row["verdict_strict_a"]),
            "now": str(row["verdict_strict_b"]),
        }
        for row in changed.to_dict("records")
    ]


def to_markdown(result: Mapping[str, Any]) -> str:
    """Format the comparison as a page of text."""
    lines = [f"# {result['b']} against {result['a']} ({result['checkpoint']})", ""]
    if result["mismatches"]:
        lines += [f"Not alike: {'; '.join(result['mismatches'])}. Only what both share is compared.", ""]
    lines += [
        "| benchmark | A | B | B - A | interval | p (Holm) | rose / fell | verdict |",
    ]
    lines.append("|---|--:|--:|--:|--:|--:|--:|---|")
    for row in result["benchmarks"]:
        lines.append(
            f"| {row['benchmark']} | {100 * row['value_a']:.1f} | {100 * row['value_b']:.1f} "
            f"| {100 * row['value']:+.1f} | [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}] | {row['p_holm']:.4f} "
            f"| {row['newly_right']} / {row['newly_wrong']} | {row['verdict'].replace('_', ' ')} |"
        )
    kinds = {k: [f for f in result["flips"] if f["kind"] == k] for k in ("model", "grader")}
    lines += ["", f"Equivalent: the interval lies within {100 * result['margin']:g} points of 0.", ""]
    for kind, rows in kinds.items():
        right = sum(row["direction"] == "newly_right" for row in rows)
        lines.append(f"- flips by the {kind}: {right} newly right, {len(rows) - right} newly wrong")
    lost = result["lost"]
    lines.append(f"- samples lost by the suite, left out: {lost['a']} -> {lost['b']}")
    lines += ["", *(f"- {row['what']}: {row['a']:.3f} -> {row['b']:.3f}" for row in result["behaviour"])]
    return "\n".join([*lines, "", *_identity_lines(result["identity"]), ""])


def _identity_lines(identity: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format the factors: those that differ with both values, then equal ones by name."""
    rows = [Factor(what=r["what"], a=r["a"], b=r["b"], blocks=r["blocks"]) for r in identity]
    lines = ["| what was the same | A | B | if it differs |", "|---|---|---|---|"]
    equal = [row for row in rows if row.same]
    for row in [*(row for row in rows if not row.same), *equal[:SHOWN_FACTORS]]:
        what = row.what if row.same else f"**{row.what}**"
        role = "not comparable" if row.blocks else "may differ"
        lines.append(f"| {what} | {short(row.a)} | {short(row.b)} | {role} |")
    if len(equal) > SHOWN_FACTORS:
        lines += ["", f"Equal too: {', '.join(row.what for row in equal[SHOWN_FACTORS:])}."]
    return lines
