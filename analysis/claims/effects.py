"""From stored results to the effect that a claim is about: one small function per kind of endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.claims import claims as c
from analysis.entropy import controls as entropy_controls
from analysis.entropy import entropy
from analysis.experiments.arms import by_arm, difference, read_run_arms, records_in
from analysis.experiments.arms import endpoint as endpoint_of
from analysis.inputs.runs import Run, find_score
from analysis.inputs.samples import read_scored
from analysis.report.bench_tables import makespan_ratios, scheduler_bench
from records.arm_record import ArmRecord
from records.evaluation import RINGS, Score
from records.stages import LAST
from records.statistics import PairedDifference, paired_difference, t_interval

ENTROPY_CHECKPOINT = LAST
"""The checkpoint whose tokens the entropy claims are about; the last one scored replaces it where it is absent."""

PAPER_STEP_ROLLOUTS = 512 * 32
"""Prompts per step times rollouts per prompt (paper section 4.3)."""


def measure_run(run: Run, settings: entropy.Settings, arms_folder: Path | None = None) -> c.Measure:
    """A `Measure` over one run folder; what several claims read is read once.

    Args:
        run: the folder.
        settings: of the analysis.
        arms_folder: all records in it are judged with; default: those that the run declares.
    """
    scores = run.scores()
    metrics = run.metrics()
    arms = read_run_arms(run) if arms_folder is None else records_in(arms_folder)
    tokens = _entropy_tokens(run, settings)
    bench = scheduler_bench(run)

    def measure(claim: c.Claim, confidence: float) -> c.Effect | c.Unavailable | None:
        level = replace(settings, confidence=confidence)
        match claim.endpoint:
            case c.ScoreDifference() as e:
                return score_difference(scores, e, level)
            case c.ScoreLevel() as e:
                return score_level(scores, e)
            case c.MetricLevel() | c.MetricSlope() as e:
                return metric_effect(metrics, e)
            case c.ArmDifference() as e:
                return arm_difference(arms, e, confidence)
            case c.EntropyContrast() as e:
                return None if tokens is None else entropy_contrast(tokens, e, level)
            case c.TurnStartContrast():
                return None if tokens is None else turn_start_contrast(tokens, level)
            case c.ZoneLift() as e:
                return None if tokens is None else zone_lift(tokens, e, level)
            case c.LexicalLift() as e:
                return None if tokens is None else lexical_lift(tokens, e, level)
            case c.SchedulerRatio() as e:
                return scheduler_ratio(bench, e, confidence)
            case c.PublishedDifference() as e:
                return published_difference(e, confidence)
            case c.PublishedEqual() as e:
                return c.Effect(value=e.b - e.a, low=None, high=None, note=f"{e.a:g} against {e.b:g}")
            case c.Budget():
                return budget()
            case _:
                return None

    return measure


def compare_scores(a: Score, b: Score, settings: entropy.Settings) -> PairedDifference | None:
    """B - A paired by question; None when the outcomes behind either are not stored."""
    if not set(a.questions) & set(b.questions):
        return None
    return paired_difference(
        a.questions,
        b.questions,
        seed=settings.seed,
        confidence=settings.confidence,
        resamples=settings.bootstrap_draws,
    )


def find_pair(
    scores: list[Score], a: str, b: str, benchmark: str, *, control_b: str = "none"
) -> tuple[Score, Score] | None:
    """Comparable scores of two checkpoints: same benchmark, grader and temperature, avg@k."""
    right = find_score(scores, b, benchmark, control=control_b)
    if right is None:
        return None
    left = find_score(scores, a, benchmark, temperature=right.temperature)
    return None if left is None else (_with_rings(scores, left), _with_rings(scores, right))


def _with_rings(scores: list[Score], score: Score) -> Score:
    """`procedural` is its three rings: take their outcomes where its own are not stored."""
    if score.questions or score.benchmark != "procedural":
        return score
    pooled: dict[str, list[float]] = {}
    for ring in RINGS:
        part = find_score(
            scores, score.checkpoint, ring, control=score.control, temperature=score.temperature
        )
        pooled |= {f"{ring}/{q}": values for q, values in (part.questions if part else {}).items()}
    return replace(score, questions=pooled)


def score_difference(
    scores: list[Score], endpoint: c.ScoreDifference, settings: entropy.Settings
) -> c.Effect | None:
    """Paired difference of two checkpoints of this one run."""
    pair = find_pair(scores, endpoint.a, endpoint.b, endpoint.benchmark)
    difference = compare_scores(*pair, settings) if pair else None
    return None if difference is None else _paired_effect(difference, "1 seed: a statement about this run")


def _paired_effect(difference: PairedDifference, note: str) -> c.Effect:
    return c.Effect(
        value=difference.value,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        num_questions=difference.num_questions,
        note=note,
    )


def score_level(scores: list[Score], endpoint: c.ScoreLevel) -> c.Effect | None:
    """A score with its stored interval, minus the published value."""
    score = find_score(scores, endpoint.checkpoint, endpoint.benchmark)
    if score is None:
        return None
    shift = endpoint.reference
    return c.Effect(
        value=score.value - shift,
        low=score.low - shift,
        high=score.high - shift,
        num_questions=score.num_questions,
        note=f"{score.metric} at T = {score.temperature:g}",
    )


def metric_effect(metrics: pd.DataFrame, endpoint: c.MetricLevel | c.MetricSlope) -> c.Effect | None:
    """Level or slope of a training metric in one run: no interval, because the unit is the seed."""
    if endpoint.metric not in metrics:
        return None
    part = metrics if endpoint.stage == "all" else metrics[metrics["stage"] == endpoint.stage]
    part = part[["step", endpoint.metric]].dropna()
    if endpoint.stage != "all":
        part = last_third(part)
    if part.empty:
        return None
    if isinstance(endpoint, c.MetricLevel):
        value = float(part[endpoint.metric].mean()) - endpoint.reference
        return c.Effect(value=value, low=None, high=None, note="1 seed")
    if len(part) < 2:
        return None
    return c.Effect(value=slope(part["step"], part[endpoint.metric]), low=None, high=None, note="1 seed")


def last_third(frame: pd.DataFrame) -> pd.DataFrame:
    """The last third of the rows, rounded up.

    >>> last_third(pd.DataFrame({"x": range(7)}))["x"].tolist()
    [4, 5, 6]
    """
    return frame.iloc[len(frame) - -(-len(frame) // 3) :]


def slope(x: Any, y: Any) -> float:
    """Least-squares slope.

    >>> round(slope([0, 1, 2], [1.0, 3.0, 5.0]), 6)
    2.0
    """
    return float(np.polyfit(np.asarray(x, dtype=float), np.asarray(y, dtype=float), 1)[0])


def arm_difference(
    arms: Sequence[ArmRecord], endpoint: c.ArmDifference, confidence: float
) -> c.Effect | None:
    """Paired by SFT checkpoint and seed: t interval and t test over the pairs that both arms have."""
    found = by_arm(arms)
    if endpoint.a not in found or endpoint.b not in found:
        return None
    values = [endpoint_of(found[arm], endpoint.metric) for arm in (endpoint.a, endpoint.b)]
    outcome = difference(values[0], values[1], confidence)
    if outcome is None:
        return None
    known = outcome.p is not None and outcome.p != 1.0
    num_origins = len(outcome.by_origin)
    return c.Effect(
        value=outcome.value,
        low=outcome.low if known else None,
        high=outcome.high if known else None,
        p=outcome.p,
        num_seeds=outcome.num_pairs,
        note=f"paired by seed, {num_origins} SFT checkpoint{'s' * (num_origins != 1)}",
    )


def _entropy_tokens(run: Run, settings: entropy.Settings) -> pd.DataFrame | None:
    files = run.token_files()
    if not files:
        return None
    checkpoint = ENTROPY_CHECKPOINT if ENTROPY_CHECKPOINT in files else list(files)[-1]
    return entropy.choose_trajectories(read_scored(run, checkpoint), settings.num_trajectories, settings.seed)


def entropy_contrast(
    tokens: pd.DataFrame, endpoint: c.EntropyContrast, settings: entropy.Settings
) -> c.Effect | c.Unavailable:
    """Mean entropy between two zones, nats."""
    return _contrast_effect(
        tokens, entropy_controls.guarded_contrast(tokens, endpoint.a, endpoint.b, settings)
    )


def turn_start_contrast(tokens: pd.DataFrame, settings: entropy.Settings) -> c.Effect | c.Unavailable:
    """Reflection against turn starts without a tool response, nats."""
    return _contrast_effect(tokens, entropy_controls.turn_start_contrast(tokens, settings))


def _contrast_effect(
    tokens: pd.DataFrame, found: Mapping[str, Any] | entropy_controls.NotAvailable
) -> c.Effect | c.Unavailable:
    if isinstance(found, entropy_controls.NotAvailable):
        return c.Unavailable(found.reason)
    return c.Effect(
        value=found["value"],
        low=found["low"],
        high=found["high"],
        p=found["p"],
        num_questions=found["num_questions"],
        note=f"nats; checkpoint {tokens['checkpoint'].iloc[0]}, 1 seed",
    )


def zone_lift(
    tokens: pd.DataFrame, endpoint: c.ZoneLift, settings: entropy.Settings
) -> c.Effect | c.Unavailable:
    """Lift of a zone over the top share of tokens, minus 1."""
    found = entropy_controls.zone_lift(tokens, endpoint.zone, settings)
    if found is None:
        return c.Unavailable(f"no token is {endpoint.zone}")
    return c.Effect(
        value=found["value"] - 1,
        low=found["low"] - 1,
        high=found["high"] - 1,
        p=found["p"],
        num_questions=int(found["num_questions"]),
        note=f"lift {found['value']:.2f} minus 1; checkpoint {tokens['checkpoint'].iloc[0]}, 1 seed",
    )


def lexical_lift(
    tokens: pd.DataFrame, endpoint: c.LexicalLift, settings: entropy.Settings
) -> c.Effect | None:
    """High share among listed words minus that of the whole zone, per question that has such words."""
    high = entropy.mark_high(tokens, settings.top_entropy_frac)
    label = entropy.lexical(tokens, reflection=endpoint.list == "reflection")
    inside = entropy.zones(tokens, settings.reflection_window) == endpoint.list
    whole = high[inside].groupby(tokens["problem"]).mean()
    listed = high[inside & label].groupby(tokens["problem"]).mean()
    shared = sorted(set(whole.index) & set(listed.index))
    if not shared:
        return None
    difference = paired_difference(
        {str(q): [float(whole[q])] for q in shared},
        {str(q): [float(listed[q])] for q in shared},
        seed=settings.seed,
        confidence=settings.confidence,
        resamples=settings.bootstrap_draws,
    )
    return _paired_effect(difference, "share of tokens marked high; 1 seed")


def scheduler_ratio(
    bench: Mapping[str, Any], endpoint: c.SchedulerRatio, confidence: float
) -> c.Effect | None:
    """Makespan of a over b minus 1, of the workload where the ratio is smallest; unit: workload seed."""
    intervals = [t_interval(r, confidence) for r in makespan_ratios(bench, endpoint.a, endpoint.b).values()]
    if not intervals:
        return None
    worst = min(intervals, key=lambda interval: interval.value)
    known = bool(np.isfinite(worst.low))
    return c.Effect(
        value=worst.value - 1,
        low=worst.low - 1 if known else None,
        high=worst.high - 1 if known else None,
        num_seeds=worst.num,
        note=f"simulated; worst of {len(intervals)} workloads",
    )


def published_difference(endpoint: c.PublishedDifference, confidence: float) -> c.Effect:
    """Two published percentages as independent samples of questions, the spread bounded by the binomial's.

    The mean of k samples per question varies less than one 0/1 outcome, and pairing would narrow it further; the
    published numbers allow neither, so the interval is the widest that fits them.

    >>> endpoint = c.PublishedDifference(kind="published_difference", a=79.8, b=80.6, num_questions=30)
    >>> effect = published_difference(endpoint, 0.95)
    >>> round(effect.value, 3), round(effect.low, 2), round(effect.high, 2)
    (0.008, -0.19, 0.21)
    """
    a, b, n = endpoint.a / 100, endpoint.b / 100, endpoint.num_questions
    se = float(np.sqrt((a * (1 - a) + b * (1 - b)) / n))
    half = float(stats.norm.ppf(0.5 + confidence / 2)) * se
    p = float(2 * stats.norm.sf(abs(b - a) / se))
    note = "from published numbers, unpaired, binomial spread"
    return c.Effect(value=b - a, low=b - a - half, high=b - a + half, p=p, num_questions=n, note=note)


def budget() -> c.Effect:
    """510 steps of 16,384 rollouts on 64 GPUs for a week.

    >>> budget().value
    8355840.0
    """
    sampled = 510 * PAPER_STEP_ROLLOUTS
    note = f"{sampled:,} sampled and at most {sampled // 2:,} trained rollouts, {64 * 7 * 24:,} GPU-hours"
    return c.Effect(value=float(sampled), low=None, high=None, note=note)
