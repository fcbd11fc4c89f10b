"""`measured_on`: the effect of each claim from stored results, with one small function per kind of endpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.claims import endpoints as e
from analysis.claims import published
from analysis.claims.claims import Effect, Measure, Unavailable
from analysis.entropy import controls as entropy_controls
from analysis.entropy import entropy
from analysis.experiments.arms import (
    POWER,
    by_arm,
    difference,
    over_origins,
    read_run_arms,
    records_in,
    smallest_effect,
    untouched_teacher,
)
from analysis.experiments.arms import endpoint as endpoint_of
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run, find_score
from analysis.inputs.sample_table import read_sample_table, scored_samples
from analysis.inputs.samples import read_scored
from analysis.report.bench_tables import makespan_ratios, sandbox_bench, scheduler_bench
from config.model import AnalysisSection
from records.arm_record import ArmRecord
from records.evaluation import RINGS, Score
from records.stages import LAST, RL_STAGES
from records.statistics import (
    PairedDifference,
    num_samples_per_question,
    paired_difference,
    rerun_se,
    t_interval,
)

ENTROPY_CHECKPOINT = LAST
"""The checkpoint of the entropy claims; if it is absent, the last scored one replaces it."""
ONE_RUN = "a statement about this run"
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Inputs of the claims; an empty part was not measured."""

    reference: Reference
    scores: list[Score] = field(default_factory=list)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Metrics of the RL stages, one row per step."""
    arms: Sequence[ArmRecord] = ()
    tokens: pd.DataFrame | None = None
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    lengths: Mapping[tuple[str, str], Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """(checkpoint, benchmark) -> question -> response tokens of its samples."""
    stages_s: Mapping[str, float] = field(default_factory=dict)
    """RL stage -> wall seconds."""


def results_of(
    run: Run,
    settings: AnalysisSection,
    reference: Reference,
    claims: Sequence[e.Claim],
    arms_folder: Path | None = None,
) -> Results:
    """Read the results of one run folder that some claims require.

    `arms_folder` is a folder whose records all count; by default those of the arms that the run declares count.
    """
    phases, scores = run.phases_s(), run.scores()
    return Results(
        reference=reference,
        scores=scores,
        metrics=run.metrics(),
        arms=read_run_arms(run) if arms_folder is None else records_in(arms_folder),
        tokens=_entropy_tokens(run, settings),
        scheduler=scheduler_bench(run),
        sandbox=sandbox_bench(run),
        lengths=_lengths(run, scores, claims),
        stages_s={
            stage: phases[name]
            for stage in RL_STAGES
            if (name := run.folder.checkpoint(stage).relative_to(run.root).as_posix()) in phases
        },
    )


def _lengths(
    run: Run, scores: Sequence[Score], claims: Sequence[e.Claim]
) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return lengths of the samples of some claims; checkpoints without such a benchmark are not read."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    asked = {
        (c.endpoint.checkpoint, c.endpoint.benchmark) for c in claims if isinstance(c.endpoint, e.LengthLevel)
    }
    files = run.samples_files()
    for checkpoint in sorted(
        {s.checkpoint for s in scores if (s.checkpoint, s.benchmark) in asked} & set(files)
    ):
        table = scored_samples(read_sample_table(files[checkpoint]))
        for (benchmark, problem), part in table.groupby(["benchmark", "problem"], observed=True):
            lengths = found.setdefault((checkpoint, str(benchmark)), {})
            lengths[str(problem)] = part["response_len"].astype(float).tolist()
    return found


def measured_on(results: Results, settings: AnalysisSection) -> Measure:
    """Return a `Measure` over results that were read once."""

    def measure(claim: e.Claim, confidence: float) -> Effect | Unavailable | None:
        level = settings.model_copy(update={"confidence": confidence})
        match claim.endpoint:
            case e.ScoreDifference() as endpoint:
                return score_difference(results.scores, endpoint, level)
            case e.ScoreShare() as endpoint:
                return score_share(results.scores, endpoint, level)
            case e.ScoreLevel() as endpoint:
                return score_level(results.scores, endpoint, confidence)
            case e.LengthLevel() as endpoint:
                return length_level(results.lengths, endpoint, confidence)
            case e.MetricLevel() | e.MetricSlope() as endpoint:
                return metric_effect(results.metrics, endpoint, confidence)
            case e.ArmDifference() as endpoint:
                return arm_difference(results.arms, endpoint, confidence)
            case e.EntropyContrast() as endpoint:
                return None if results.tokens is None else entropy_contrast(results.tokens, endpoint, level)
            case e.TurnStartContrast():
                return None if results.tokens is None else turn_start_contrast(results.tokens, level)
            case e.ZoneLift() as endpoint:
                return None if results.tokens is None else zone_lift(results.tokens, endpoint, level)
            case e.LexicalLift() as endpoint:
                return None if results.tokens is None else lexical_lift(results.tokens, endpoint, level)
            case e.SchedulerRatio() as endpoint:
                return scheduler_ratio(results.scheduler, endpoint, confidence)
            case e.Latency() as endpoint:
                return latency(results.sandbox, endpoint, confidence)
            case e.WallTime() as endpoint:
                return wall_time(results.stages_s, endpoint)
            case e.PublishedDifference() as endpoint:
                return published_difference(endpoint, results.reference, confidence)
            case e.PublishedGap() as endpoint:
                return Effect(value=published.gap_error(endpoint, results.reference), low=None, high=None)
            case e.PublishedSum() as endpoint:
                return Effect(value=published.sum_error(endpoint), low=None, high=None)
            case e.PublishedGranularity() as endpoint:
                return Effect(
                    value=published.granularity_error(endpoint, results.reference), low=None, high=None
                )
            case e.PublishedFilter() as endpoint:
                return Effect(value=published.filter_error(endpoint), low=None, high=None)
            case e.NoEndpoint():
                return None

    return measure


def compare_scores(a: Score, b: Score, settings: AnalysisSection) -> PairedDifference | None:
    """Return B - A paired by question; None when the outcomes of either are not stored."""
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
    """Add the outcomes of the rings to a score of `procedural` that has none."""
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
    scores: list[Score], endpoint: e.ScoreDifference, settings: AnalysisSection
) -> Effect | None:
    """Return the paired difference of two checkpoints of this run."""
    pair = find_pair(scores, endpoint.a, endpoint.b, endpoint.benchmark)
    difference = compare_scores(*pair, settings) if pair else None
    return None if difference is None else _paired_effect(difference, ONE_RUN)


def _paired_effect(difference: PairedDifference, note: str) -> Effect:
    return Effect(
        value=difference.value,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        num_questions=difference.num_questions,
        smallest=(float(stats.norm.ppf(0.975)) + float(stats.norm.ppf(POWER))) * difference.se,
        note=note,
    )


def score_share(scores: list[Score], endpoint: e.ScoreShare, settings: AnalysisSection) -> Effect | None:
    """Return the gain up to `at` minus half of the gain up to `end`, paired by question: above 0 if it is most of it.

    With s, a, e the outcomes at start, at and end, (a - s) - (e - s) / 2 is a - (s + e) / 2, one number per question.
    """
    end = find_score(scores, endpoint.end, endpoint.benchmark)
    if end is None:
        return None
    start, at = (
        find_score(scores, name, endpoint.benchmark, temperature=end.temperature)
        for name in (endpoint.start, endpoint.at)
    )
    if start is None or at is None:
        return None
    outcomes = [_with_rings(scores, score).questions for score in (start, at, end)]
    shared = set.intersection(*(set(o) for o in outcomes))
    if not shared:
        return None
    means = [{q: float(np.mean(o[q])) for q in shared} for o in outcomes]
    half = {q: [(means[0][q] + means[2][q]) / 2] for q in shared}
    found = paired_difference(
        half,
        {q: [means[1][q]] for q in shared},
        seed=settings.seed,
        confidence=settings.confidence,
        resamples=settings.bootstrap_draws,
    )
    level = [float(np.mean(list(m.values()))) for m in means]
    gain = level[2] - level[0]
    share = f"{100 * (level[1] - level[0]) / gain:.0f}% of the gain; " if gain > 0 else "no gain; "
    return _paired_effect(found, share + ONE_RUN)


def score_level(scores: list[Score], endpoint: e.ScoreLevel, confidence: float) -> Effect | None:
    """Return a score minus the published value on the same questions.

    Only the sampling of answers differs, so the spread is the score's standard error of a rerun, once for each side.
    """
    score = find_score(scores, endpoint.checkpoint, endpoint.benchmark)
    if score is None:
        return None
    value, note = score.value - endpoint.reference, f"{score.metric} at T = {score.temperature:g}"
    if not score.questions or num_samples_per_question(score.questions) < 2:
        return Effect(value=value, low=None, high=None, num_questions=score.num_questions, note=note)
    half = float(stats.norm.ppf(0.5 + confidence / 2)) * math.sqrt(2) * rerun_se(score.questions)
    return Effect(
        value=value, low=value - half, high=value + half, num_questions=score.num_questions, note=note
    )


def length_level(
    lengths: Mapping[tuple[str, str], Mapping[str, Sequence[float]]],
    endpoint: e.LengthLevel,
    confidence: float,
) -> Effect | None:
    """Mean response tokens minus a published mean on the same questions, the spread over samples within a question."""
    by_question = lengths.get((endpoint.checkpoint, endpoint.benchmark))
    if not by_question:
        return None
    value = float(np.mean([np.mean(tokens) for tokens in by_question.values()])) - endpoint.reference
    note = f"{endpoint.reference:g} tokens published; tokenizers differ"
    if any(len(tokens) < 2 for tokens in by_question.values()):
        return Effect(value=value, low=None, high=None, num_questions=len(by_question), note=note)
    variance = sum(np.var(tokens, ddof=1) / len(tokens) for tokens in by_question.values())
    half = float(stats.norm.ppf(0.5 + confidence / 2)) * math.sqrt(2 * variance) / len(by_question)
    return Effect(value=value, low=value - half, high=value + half, num_questions=len(by_question), note=note)


def metric_effect(
    metrics: pd.DataFrame, endpoint: e.MetricLevel | e.MetricSlope, confidence: float
) -> Effect | None:
    """Level over the last third of a stage, or slope over all RL steps, of one run; the unit is the step.

    Steps have different problems, so their means are nearly independent. The interval covers this run only.
    """
    if endpoint.metric not in metrics:
        return None
    if isinstance(endpoint, e.MetricSlope):
        part = metrics[["step", endpoint.metric]].dropna()
        if len(part) < 3:
            return None
        fit = stats.linregress(part["step"].to_numpy(float), part[endpoint.metric].to_numpy(float))
        half = float(stats.t.ppf(0.5 + confidence / 2, len(part) - 2)) * fit.stderr
        low, high = fit.slope - half, fit.slope + half
        return Effect(
            value=float(fit.slope),
            low=float(low),
            high=float(high),
            p=float(fit.pvalue),
            num_units=len(part),
            note=f"per step; {ONE_RUN}",
        )
    late = last_third(metrics.loc[metrics["stage"] == endpoint.stage, ["step", endpoint.metric]].dropna())
    if len(late) < 2:
        return None
    values = late[endpoint.metric].to_numpy(float) - endpoint.reference
    found = t_interval(values, confidence)
    finite = bool(np.isfinite(found.low))
    return Effect(
        value=found.value,
        low=found.low if finite else None,
        high=found.high if finite else None,
        p=float(stats.ttest_1samp(values, 0.0)[1]) if finite else None,
        num_units=len(late),
        smallest=smallest_effect(values, confidence),
        note=ONE_RUN,
    )


def last_third(frame: pd.DataFrame) -> pd.DataFrame:
    """The last third of the rows, rounded up.

    >>> last_third(pd.DataFrame({"x": range(7)}))["x"].tolist()
    [4, 5, 6]
    """
    return frame.iloc[len(frame) - -(-len(frame) // 3) :]


def arm_difference(arms: Sequence[ArmRecord], endpoint: e.ArmDifference, confidence: float) -> Effect | None:
    """Arm b minus arm a over SFT checkpoints of the preset's own teacher, seeds of a checkpoint averaged.

    Below `MIN_ORIGINS` checkpoints there is no interval; the note then has the one over seeds.
    """
    found = by_arm(untouched_teacher(arms))
    if endpoint.a not in found or endpoint.b not in found:
        return None
    values = [endpoint_of(found[arm], endpoint.metric) for arm in (endpoint.a, endpoint.b)]
    pairs = difference(values[0], values[1], confidence)
    if pairs is None:
        return None
    wide = over_origins(pairs, confidence)
    num = len(pairs.by_origin)
    units = f"{num} SFT checkpoint{'s' * (num != 1)}, {pairs.num_pairs} pairs of seeds"
    if wide is None or not np.isfinite(wide.low):
        within = (
            f"; over the seeds alone [{pairs.low:+.4f}, {pairs.high:+.4f}]" if np.isfinite(pairs.low) else ""
        )
        return Effect(value=pairs.value, low=None, high=None, num_units=num, note=units + within)
    return Effect(
        value=wide.value,
        low=wide.low,
        high=wide.high,
        p=wide.p,
        num_units=num,
        smallest=wide.smallest,
        note=units,
    )


def _entropy_tokens(run: Run, settings: AnalysisSection) -> pd.DataFrame | None:
    files = run.token_files()
    if not files:
        return None
    checkpoint = ENTROPY_CHECKPOINT if ENTROPY_CHECKPOINT in files else list(files)[-1]
    return entropy.choose_trajectories(read_scored(run, checkpoint), settings.num_trajectories, settings.seed)


def entropy_contrast(
    tokens: pd.DataFrame, endpoint: e.EntropyContrast, settings: AnalysisSection
) -> Effect | Unavailable:
    """Mean entropy between two zones, nats."""
    return _contrast_effect(
        tokens, entropy_controls.guarded_contrast(tokens, endpoint.a, endpoint.b, settings)
    )


def turn_start_contrast(tokens: pd.DataFrame, settings: AnalysisSection) -> Effect | Unavailable:
    """Reflection against turn starts without a tool response, nats."""
    return _contrast_effect(tokens, entropy_controls.turn_start_contrast(tokens, settings))


def _contrast_effect(
    tokens: pd.DataFrame, found: Mapping[str, Any] | entropy_controls.NotAvailable
) -> Effect | Unavailable:
    if isinstance(found, entropy_controls.NotAvailable):
        return Unavailable(found.reason)
    return Effect(
        value=found["value"],
        low=found["low"],
        high=found["high"],
        p=found["p"],
        num_questions=found["num_questions"],
        note=f"nats; checkpoint {tokens['checkpoint'].iloc[0]}",
    )


def zone_lift(tokens: pd.DataFrame, endpoint: e.ZoneLift, settings: AnalysisSection) -> Effect | Unavailable:
    """Lift of a zone over the top share of tokens, minus 1."""
    found = entropy_controls.zone_lift(tokens, endpoint.zone, settings)
    if found is None:
        return Unavailable(f"no token is {endpoint.zone}")
    return Effect(
        value=found["value"] - 1,
        low=found["low"] - 1,
        high=found["high"] - 1,
        p=found["p"],
        num_questions=int(found["num_questions"]),
        note=f"lift {found['value']:.2f} minus 1; checkpoint {tokens['checkpoint'].iloc[0]}",
    )


def lexical_lift(tokens: pd.DataFrame, endpoint: e.LexicalLift, settings: AnalysisSection) -> Effect | None:
    """Return the high share among listed words minus that of the whole zone, per question with such words."""
    high = entropy.mark_high(tokens, settings.top_entropy_frac)
    label = entropy.lexical(tokens, reflection=endpoint.list == "reflection")
    inside = entropy.zones(tokens) == endpoint.list
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
    return _paired_effect(difference, "share of tokens marked high")


def scheduler_ratio(bench: Mapping[str, Any], endpoint: e.SchedulerRatio, confidence: float) -> Effect | None:
    """Return the makespan of a over b, minus 1, on the workload with the smallest ratio; unit: workload seed."""
    intervals = [t_interval(r, confidence) for r in makespan_ratios(bench, endpoint.a, endpoint.b).values()]
    if not intervals:
        return None
    worst = min(intervals, key=lambda interval: interval.value)
    known = bool(np.isfinite(worst.low))
    return Effect(
        value=worst.value - 1,
        low=worst.low - 1 if known else None,
        high=worst.high - 1 if known else None,
        num_units=worst.num,
        note=f"simulated; worst of {len(intervals)} workloads",
    )


def latency(bench: Mapping[str, Any], endpoint: e.Latency, confidence: float) -> Effect | None:
    """Mean latency at the paper's rate of calls minus the published one; the unit is a batch of consecutive calls."""
    load = bench.get("paper_load")
    if not load:
        return None
    found = t_interval(np.array(load["batch_mean_s"]) - endpoint.reference_s, confidence)
    finite = bool(np.isfinite(found.low))
    return Effect(
        value=found.value,
        low=found.low if finite else None,
        high=found.high if finite else None,
        num_units=found.num,
        note=f"{load['num_calls']} calls at {load['calls_per_s']:.1f} a second; other programs, other machine",
    )


def wall_time(stages_s: Mapping[str, float], endpoint: e.WallTime) -> Effect | None:
    """Days of the RL stages minus the published number: measured, without a sampling error."""
    if set(stages_s) != set(RL_STAGES):
        return None
    value = sum(stages_s.values()) / DAY_S - endpoint.reference_days
    return Effect(value=value, low=value, high=value, note=ONE_RUN)


def published_difference(endpoint: e.PublishedDifference, reference: Reference, confidence: float) -> Effect:
    """Two published percentages, b minus a: see `analysis.claims.published.difference`."""
    value, low, high, p, smallest = published.difference(endpoint, reference, confidence)
    found = Effect(value=value, low=low, high=high, p=p, num_questions=endpoint.num_questions)
    return replace(found, smallest=smallest, note="published numbers, unpaired, binomial spread")
