"""Two runs side by side, paired by question: what rose, what fell, and which flips are the grader's alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from analysis.entropy import Settings
from analysis.multiplicity import holm
from analysis.runs import BadRun, Run, Score, find_score, read_json
from analysis.samples import behaviour, read_samples, scored_samples
from analysis.statistics import paired_difference
from config.sections import digest

BEHAVIOUR = (
    "response_len",
    "num_turns",
    "num_calls",
    "num_failed_calls",
    "truncated",
)
SAMPLE_COLUMNS = [
    "benchmark",
    "problem",
    "sample",
    "T",
    "control",
    "stop",
    "ids",
    "mask",
    "prompt_len",
    "turns",
    "verdicts",
]
CORRECT = "correct"
BLOCKING_KEYS = frozenset({"eval.top_p", "eval.max_response", "eval.max_turns", "eval.max_prompt"})
"""Configuration that makes two evaluations different measurements."""

Key = tuple[str, str, int]


def compare_runs(
    a: Run, b: Run, checkpoint: str, settings: Settings, *, margin: float, allow_mismatch: bool = False
) -> dict[str, Any]:
    """Every benchmark that both runs evaluated for a checkpoint.

    Raises:
        BadRun: Nothing in common, or a difference other than the model (questions, temperature, data) that
            `allow_mismatch` does not wave through.
    """
    identity = identity_rows(a, b)
    reasons = [f"{row['what']} differs" for row in identity if row["blocks"] and not row["same"]]
    pairs = comparable_scores(a.scores(), b.scores(), checkpoint)
    if not pairs:
        raise BadRun(
            f"{a.name} and {b.name}: no benchmark of checkpoint {checkpoint} that both evaluated alike"
        )
    for left, right in pairs:
        if set(left.questions) != set(right.questions):
            reasons.append(f"{left.benchmark} has other questions")
    if reasons and not allow_mismatch:
        raise BadRun(
            f"{a.name} and {b.name} are not comparable: {'; '.join(reasons)}; --allow-mismatch compares what they share"
        )
    benchmarks = [_benchmark_row(left, right, settings) for left, right in pairs]
    for row, adjusted in zip(benchmarks, holm([row["p"] for row in benchmarks]), strict=True):
        row["p_holm"] = adjusted
        row["verdict"] = verdict(row, margin, 1 - settings.confidence)
    return {
        "a": a.name,
        "b": b.name,
        "checkpoint": checkpoint,
        "margin": margin,
        "identity": identity,
        "mismatches": reasons,
        "benchmarks": benchmarks,
        **_sample_comparison(a, b, checkpoint),
        "regression": any(row["verdict"] == "worse" for row in benchmarks),
    }


def verdict(row: Mapping[str, Any], margin: float, alpha: float) -> str:
    """better, worse, equivalent (interval inside the margin) or no_evidence; better and worse by the adjusted p.

    >>> verdict({"p_holm": 0.01, "value": -0.1, "low": -0.15, "high": -0.05}, 0.02, 0.05)
    'worse'
    >>> verdict({"p_holm": 0.6, "value": 0.0, "low": -0.01, "high": 0.01}, 0.02, 0.05)
    'equivalent'
    """
    if row["p_holm"] <= alpha and not row["low"] <= 0 <= row["high"]:
        return "better" if row["value"] > 0 else "worse"
    return "equivalent" if -margin < row["low"] and row["high"] < margin else "no_evidence"


def comparable_scores(a: list[Score], b: list[Score], checkpoint: str) -> list[tuple[Score, Score]]:
    """Pairs of avg@k scores without a control, same benchmark and temperature, strict grader, with outcomes."""
    pairs = []
    for benchmark in sorted({s.benchmark for s in a if s.checkpoint == checkpoint}):
        left = find_score(a, checkpoint, benchmark)
        right = find_score(b, checkpoint, benchmark, temperature=left.temperature) if left else None
        if (
            left
            and right
            and left.questions
            and right.questions
            and set(left.questions) & set(right.questions)
        ):
            pairs.append((left, right))
    return pairs


def identity_rows(a: Run, b: Run) -> list[dict[str, Any]]:
    """What should be equal, and what may differ; `blocks` marks what makes runs incomparable."""
    digests = [run.manifest_digest("data") for run in (a, b)]
    policies = [_policies(run) for run in (a, b)]
    configs = [dict(leaves(run.facts.get("config", {}))) for run in (a, b)]
    rows = [
        {"what": "preset", "a": a.preset, "b": b.preset, "blocks": False},
        {"what": "data digest", "a": digests[0], "b": digests[1], "blocks": True},
        {"what": "grading policies", "a": policies[0], "b": policies[1], "blocks": False},
    ]
    for key in sorted(set(configs[0]) | set(configs[1])):
        values = [config.get(key) for config in configs]
        if values[0] != values[1] and not key.startswith("runtime."):
            rows.append({"what": key, "a": values[0], "b": values[1], "blocks": key in BLOCKING_KEYS})
    return [row | {"same": row["a"] == row["b"]} for row in rows]


def _policies(run: Run) -> str | None:
    """Digest of the grading policies of the first evaluation; a change can flip verdicts of the same text."""
    for path in run.summaries():
        loaded = read_json(path)
        if isinstance(loaded, dict) and "policies" in loaded:
            return digest(loaded["policies"])
    return None


def leaves(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Leaves of nested JSON as (dotted key, value).

    >>> leaves({"a": {"b": 1}, "c": [2]})
    [('a.b', 1), ('c', [2])]
    """
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [
        leaf for key in sorted(value) for leaf in leaves(value[key], f"{prefix}.{key}" if prefix else key)
    ]


def _benchmark_row(left: Score, right: Score, settings: Settings) -> dict[str, Any]:
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


def _sample_comparison(a: Run, b: Run, checkpoint: str) -> dict[str, Any]:
    """Flips and behaviour from the samples files, controls left out; empty where either is absent."""
    paths = [run.samples_files().get(checkpoint) for run in (a, b)]
    if paths[0] is None or paths[1] is None:
        return {"flips": [], "behaviour": []}
    rows = [scored_samples(read_samples(path, SAMPLE_COLUMNS)) for path in paths if path is not None]
    frames = [behaviour(side) for side in rows]
    return {
        "flips": flips(*({_key(r): r for r in side} for side in rows)),
        "behaviour": [
            {"what": name, "a": float(frames[0][name].mean()), "b": float(frames[1][name].mean())}
            for name in BEHAVIOUR
        ],
    }


def _key(row: Mapping[str, Any]) -> Key:
    return row["benchmark"], row["problem"], row["sample"]


def flips(a: Mapping[Key, Mapping[str, Any]], b: Mapping[Key, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Samples whose strict verdict changed between right and not right.

    kind grader: the sampled ids are the same, so only the grader can have changed; kind model: they differ.
    """
    found = []
    for key in sorted(set(a) & set(b)):
        was, now = (row["verdicts"]["strict"]["verdict"] for row in (a[key], b[key]))
        if (was == CORRECT) == (now == CORRECT):
            continue
        found.append(
            {
                "benchmark": key[0],
                "problem": key[1],
                "sample": key[2],
                "kind": "grader" if list(a[key]["ids"]) == list(b[key]["ids"]) else "model",
                "direction": "newly_right" if now == CORRECT else "newly_wrong",
                "was": str(was),
                "now": str(now),
            }
        )
    return found


def to_markdown(result: Mapping[str, Any]) -> str:
    """The comparison as a page of text."""
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
    lines += ["", *(f"- {row['what']}: {row['a']:.3f} -> {row['b']:.3f}" for row in result["behaviour"])]
    return "\n".join([*lines, ""])
