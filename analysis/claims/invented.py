"""`reached`: the verdicts that a claim gives on invented results.

A row that can come out one way only is no test. Results are invented at the size that the row is measured at: its
benchmark's questions and samples, seven SFT checkpoints with three seeds, sixteen steps a stage, and with the noise of
real results. The effect is large and of either sign, none, or just at the margin of 'held'.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.claims import endpoints as e
from analysis.claims.claims import Effect, Verdict, decide, reachable
from analysis.claims.effects import Results, measured_on
from analysis.entropy.entropy import lexical, zones
from analysis.inputs.reference import Reference
from config.model import AnalysisSection
from records.arm_record import ArmRecord
from records.evaluation import Score

QUESTIONS = {"aime24": 30, "aime25": 30, "math500": 500, "gpqa_diamond": 198, "bfcl_v3": 4441, "ifeval": 541}
"""Questions of each benchmark; a ring of the procedural problems counts as 400."""
GREEDY = {"bfcl_v3", "ifeval"}
"""Benchmarks with one sample a question; the others have 16."""
DISCORDANT = 0.12
"""Share of questions whose one greedy answer changes between two checkpoints that are equally good."""
STEPS = 16
SIZE = 0.4
"""A large effect, as a share."""

Rng = np.random.Generator


def reached(claim: e.Claim, reference: Reference, settings: AnalysisSection) -> frozenset[Verdict]:
    """The verdicts of a claim over all invented cases."""
    verdicts = set()
    # One null in twenty is off 0 by chance, so there are three.
    for size, seed in ((-SIZE, 0), (0.0, 0), (0.0, 1), (0.0, 2), (claim.margin or 0.0, 0), (SIZE, 0)):
        case, results = _case(claim, size, reference, settings, np.random.default_rng(seed))
        effect = measured_on(results, settings)(case, settings.confidence)
        if isinstance(effect, Effect):
            verdicts.add(decide(case, effect))
    return frozenset(verdicts)


def lacking(claim: e.Claim, found: frozenset[Verdict]) -> frozenset[Verdict]:
    """Verdicts that the endpoint of a claim allows and no invented result reached."""
    return reachable(claim) - found


def _case(
    claim: e.Claim, size: float, reference: Reference, settings: AnalysisSection, rng: Rng
) -> tuple[e.Claim, Results]:
    """Results with an effect of this size; for a claim about published numbers, the claim with other numbers."""
    none = Results(reference=reference)
    match claim.endpoint:
        case e.ScoreDifference() as it:
            return claim, replace(none, scores=_scores(it.benchmark, {it.a: 0.5, it.b: 0.5 + size}, rng))
        case e.ScoreShare() as it:
            levels = {it.start: 0.1, it.at: 0.5 + 0.9 * size, it.end: 0.9}
            return claim, replace(none, scores=_scores(it.benchmark, levels, rng))
        case e.ScoreLevel() as it:
            (score,) = _scores(it.benchmark, {it.checkpoint: it.reference}, rng)
            moved = it.model_copy(update={"reference": score.value - size})
            return claim.model_copy(update={"endpoint": moved}), replace(none, scores=[score])
        case e.LengthLevel() as it:
            tokens = it.reference * (1 + size) + 4000 * rng.normal(size=(QUESTIONS[it.benchmark], 16))
            lengths = {str(q): row.tolist() for q, row in enumerate(tokens)}
            return claim, replace(none, lengths={(it.checkpoint, it.benchmark): lengths})
        case e.MetricLevel() as it:
            values = it.reference + size + 0.02 * rng.normal(size=STEPS)
            return claim, replace(none, metrics=_metrics(it.metric, values, it.stage))
        case e.MetricSlope() as it:
            values = 10 * size * np.arange(STEPS) + 5 * rng.normal(size=STEPS)
            return claim, replace(none, metrics=_metrics(it.metric, values, "rl1"))
        case e.ArmDifference() as it:
            return claim, replace(none, arms=_arms(it, size, rng))
        case e.EntropyContrast() | e.TurnStartContrast() | e.ZoneLift() | e.LexicalLift() as it:
            return claim, replace(none, tokens=_tokens(it, size, settings, rng))
        case e.SchedulerRatio() as it:
            return claim, replace(none, scheduler=_simulated(it, size, rng))
        case e.Latency() as it:
            means = it.reference_s * (1 + size + 0.1 * rng.normal(size=10))
            load = {"num_calls": 100, "calls_per_s": 38.0, "batch_mean_s": means.tolist()}
            return claim, replace(none, sandbox={"paper_load": load})
        case e.WallTime() as it:
            days = it.reference_days + (size if size == claim.margin else it.reference_days * size)
            return claim, replace(none, stages_s={"rl1": days * 86_400, "rl2": 0.0, "rl3": 0.0})
        case _:
            return _published(claim, size, reference)


def _scores(benchmark: str, levels: dict[str, float], rng: Rng) -> list[Score]:
    """One score per checkpoint. Questions differ in difficulty; greedy answers of two checkpoints mostly agree."""
    num = QUESTIONS.get(benchmark, 400)
    k = 1 if benchmark in GREEDY else 16
    shared = rng.random((num, k))
    spread = 0.2 * rng.normal(size=(num, 1))
    scores = []
    for checkpoint, level in levels.items():
        fresh = rng.random((num, k))
        # A greedy answer stays that of the first checkpoint unless it is drawn anew; half of those change.
        anew = rng.random((num, k)) < (2 * DISCORDANT if k == 1 and scores else 1.0)
        outcomes = (np.where(anew, fresh, shared) < level + spread).astype(float)
        shared = np.where(anew, fresh, shared) if not scores else shared
        questions = {f"q{q:04d}": row.tolist() for q, row in enumerate(outcomes)}
        scores.append(
            Score(
                checkpoint=checkpoint, benchmark=benchmark, metric=f"avg@{k}", temperature=0.6, control="none",
                value=float(outcomes.mean()), low=0.0, high=1.0, num_questions=num, num_samples=num * k,
                grader="strict", questions=questions,
            )
        )  # fmt: skip
    return scores


def _metrics(metric: str, values: np.ndarray, stage: str) -> pd.DataFrame:
    return pd.DataFrame({"step": range(1, len(values) + 1), "stage": stage, metric: values})


def _arms(endpoint: e.ArmDifference, size: float, rng: Rng) -> list[ArmRecord]:
    """Seven checkpoints, three seeds: an SD of 2 points between seeds and of 1 between checkpoints."""
    records = []
    for checkpoint in range(7):
        shift = size + 0.01 * rng.normal()
        for seed in range(3):
            for arm, level in ((endpoint.a, 0.5), (endpoint.b, 0.5 + shift)):
                value = level + 0.014 * rng.normal()
                records.append(
                    ArmRecord(
                        arm=arm, origin=f"invented_{checkpoint}", seed=seed, text="", curve=[],
                        endpoints={endpoint.metric: value},
                    )
                )  # fmt: skip
    return records


_TURNS = (("reason", 20, 0, False), ("tool_call", 10, 0, False), ("reason", 20, 1, True), ("reason", 20, 2, False),
          ("answer", 6, 2, False))  # fmt: skip
"""Segment, tokens, turn, whether a tool has just answered."""


def _tokens(
    endpoint: e.EntropyContrast | e.TurnStartContrast | e.ZoneLift | e.LexicalLift,
    size: float,
    settings: AnalysisSection,
    rng: Rng,
) -> pd.DataFrame:
    """Forty questions with one trajectory each; the effect is on the tokens that the endpoint is about."""
    rows: list[dict[str, Any]] = []
    for question in range(40):
        index = 0
        for segment, length, turn, answered in _TURNS:
            for place in range(length):
                word = (" but", " error", " we")[place % 3]
                rows.append(
                    {
                        "run": "invented", "checkpoint": "rl3", "benchmark": "b", "problem": f"q{question:02d}",
                        "sample": 0, "turn": turn, "index": index, "text": word, "segment": segment,
                        "distance": float(place) if answered else np.nan,
                    }
                )  # fmt: skip
                index += 1
    frame = pd.DataFrame(rows)
    zone = zones(frame)
    match endpoint:
        case e.EntropyContrast():
            about = zone == endpoint.b
        case e.TurnStartContrast():
            about = zone == "reflection"
        case e.ZoneLift():
            about = zone == endpoint.zone
        case e.LexicalLift():
            about = (zone == endpoint.list) & lexical(frame, reflection=endpoint.list == "reflection")
    return frame.assign(entropy=1.0 + 2 * size * about + 0.3 * rng.random(len(frame)))


def _simulated(endpoint: e.SchedulerRatio, size: float, rng: Rng) -> dict[str, Any]:
    runs = [
        {
            "workload": "w",
            "seed": seed,
            "policy": policy,
            "simulated_makespan_s": span * (1 + 0.02 * rng.normal()),
        }
        for seed in range(5)
        for policy, span in ((endpoint.a, 1 + size), (endpoint.b, 1.0))
    ]
    return {"runs": runs}


def _published(claim: e.Claim, size: float, reference: Reference) -> tuple[e.Claim, Results]:
    """The claim on other published numbers: off by `size` in the unit that the check allows for."""
    numbers = copy.deepcopy(reference)

    def put(where: e.Cell, value: float) -> None:
        table, row, column = where
        numbers[table]["rows"][row][numbers[table]["columns"].index(column)] = value

    endpoint = claim.endpoint
    match endpoint:
        case e.PublishedDifference():
            put(endpoint.a, 50.0)
            put(endpoint.b, 50.0 + 100 * size)
        case e.PublishedGap():
            put(endpoint.a, 50.0)
            put(endpoint.b, 50.0 + endpoint.stated + size)
        case e.PublishedSum():
            endpoint = endpoint.model_copy(update={"stated": sum(endpoint.parts) + 10 * size})
        case e.PublishedGranularity():
            possible = round(100 * (endpoint.num_outcomes // 2) / endpoint.num_outcomes, endpoint.digits)
            put(endpoint.cell, possible + (0.0 if size == 0 else 10.0**-endpoint.digits))
        case e.PublishedFilter():
            endpoint = endpoint.model_copy(update={"after": endpoint.before * (endpoint.at_most + size)})
        case _:
            raise AssertionError(f"{claim.id}: no invented case for {endpoint.kind}")
    return claim.model_copy(update={"endpoint": endpoint}), Results(reference=numbers)
