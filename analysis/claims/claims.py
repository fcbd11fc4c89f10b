"""Claims of the paper and of the press, and the verdict that a run's stored results give on each.

The rows are in results/reference/claims.yaml, written before any run. A verdict is computed, never typed:
`measure` (analysis.claims.effects) gives an effect with an interval, `decide` turns it into a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from analysis.claims.multiplicity import holm, holm_confidence
from records.errors import ConfigError
from records.files import read_text
from records.stored import Stored, first_problem

MIN_SEEDS = 5
"""Training claims with fewer seeds are inconclusive at most."""


class Verdict(StrEnum):
    """Outcome of a claim in one run."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    SAME_DIRECTION = "same_direction"
    OPPOSITE = "opposite"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTABLE = "not_testable"
    NOT_RUN = "not_run"


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScoreDifference(_Closed):
    """Score of checkpoint b minus that of a, paired by question."""

    kind: Literal["score_difference"]
    a: str
    b: str
    benchmark: str


class ScoreLevel(_Closed):
    """A score minus a published one."""

    kind: Literal["score_level"]
    checkpoint: str
    benchmark: str
    reference: float
    margin: float


class MetricLevel(_Closed):
    """Mean of a training metric over the last third of a stage, minus a reference."""

    kind: Literal["metric_level"]
    stage: str
    metric: str
    reference: float


class MetricSlope(_Closed):
    """Least-squares slope per step of a training metric: over the last third of a stage, or over all RL steps."""

    kind: Literal["metric_slope"]
    stage: str
    metric: str


class ArmDifference(_Closed):
    """An endpoint of arm b minus that of arm a, paired by seed."""

    kind: Literal["arm_difference"]
    a: str
    b: str
    metric: str


Zone = Literal["forking", "reflection", "coding", "answer", "other"]


class EntropyContrast(_Closed):
    """Mean entropy in zone b minus zone a, paired by question."""

    kind: Literal["entropy_contrast"]
    a: Zone
    b: Zone


class TurnStartContrast(_Closed):
    """Mean entropy of reflection minus the same positions of later turns without a tool response, by question."""

    kind: Literal["turn_start_contrast"]


class ZoneLift(_Closed):
    """A zone's share of high-entropy tokens over the share of high-entropy tokens overall, minus 1."""

    kind: Literal["zone_lift"]
    zone: Zone


class LexicalLift(_Closed):
    """Share of high-entropy tokens among listed words minus that among all tokens of the zone, by question."""

    kind: Literal["lexical_lift"]
    list: Literal["forking", "reflection"]


class SchedulerRatio(_Closed):
    """Simulated makespan of policy a over that of b, minus 1: the worst workload."""

    kind: Literal["scheduler_ratio"]
    a: str
    b: str


class PublishedDifference(_Closed):
    """Two published percentages on as many questions: b minus a."""

    kind: Literal["published_difference"]
    a: float
    b: float
    num_questions: int


class PublishedEqual(_Closed):
    """Two published values of one quantity."""

    kind: Literal["published_equal"]
    a: float
    b: float


class Budget(_Closed):
    """510 steps in other units."""

    kind: Literal["budget"]


class NoEndpoint(_Closed):
    """Nothing that a run of this suite could measure."""

    kind: Literal["none"]


Evidence = Literal["direct", "proxy", "simulated", "arithmetic"]
Direction = Literal["up", "down", "held"]
Unit = Literal["question", "seed"]
Endpoint = Annotated[
    ScoreDifference
    | ScoreLevel
    | MetricLevel
    | MetricSlope
    | ArmDifference
    | EntropyContrast
    | TurnStartContrast
    | ZoneLift
    | LexicalLift
    | SchedulerRatio
    | PublishedDifference
    | PublishedEqual
    | Budget
    | NoEndpoint,
    Field(discriminator="kind"),
]


class Claim(_Closed):
    """One row of claims.yaml."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    text: str
    source: list[str]
    published: list[str]
    evidence: Evidence
    endpoint: Endpoint
    direction: Direction | None = None
    margin: float | None = None
    """Half width of 'held', fixed beforehand."""
    unit: Unit
    family: str
    """Claims of one family share Holm's correction."""
    criterion: str
    presets: list[str] | None = None
    """Where the endpoint exists; null: everywhere; empty: nowhere."""
    cost: str | None = None
    """What measuring would take, where this run does not."""
    press_only: bool = False

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        if (self.direction == "held") != (self.margin is not None) and self.endpoint.kind != "none":
            raise ValueError(f"{self.id}: `margin` belongs to direction held, and held needs one")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A measured endpoint, signed as b minus a (or value minus reference)."""

    value: float
    low: float | None
    """None: no interval exists (one seed)."""
    high: float | None
    p: float | None = None
    """Unadjusted; None where no test exists."""
    num_questions: int | None = None
    num_seeds: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The step that measures the endpoint ran, and its data cannot decide: the row is marked, never judged."""

    reason: str


Measure = Callable[[Claim, float], Effect | Unavailable | None]
"""(claim, confidence) -> effect; None where this run has no data for it."""


def read_claims(path: Path) -> list[Claim]:
    """Read and check claims.yaml.

    Raises:
        ConfigError: Unreadable, a wrong key or value, or an id used twice.
    """
    try:
        rows = yaml.safe_load(read_text(path))
        claims = TypeAdapter(list[Claim]).validate_python(rows)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML ({str(error).splitlines()[0]})") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: row {first_problem(error)}") from None
    ids = [claim.id for claim in claims]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ConfigError(f"{path}: id {twice[0]} is used twice; ids must differ")
    return claims


def decide(claim: Claim, effect: Effect) -> Verdict:
    """The word for a measured effect; its interval must already be at the adjusted level.

    Off 0 in the published direction: supported (direct evidence) or same_direction (any other); off 0 against it:
    contradicted or opposite; else inconclusive. 'Held' asks for an interval inside the margin, and is refuted by
    one that lies outside it wholly. Training claims with fewer than five seeds are inconclusive at most.

    >>> claim = Claim(id="x", text="", source=[], published=[], evidence="proxy", endpoint=NoEndpoint(kind="none"),
    ...               direction="up", unit="question", family="f", criterion="")
    >>> str(decide(claim, Effect(value=0.2, low=0.1, high=0.3)))
    'same_direction'
    >>> str(decide(claim, Effect(value=0.2, low=-0.1, high=0.5)))
    'inconclusive'
    """
    direct = claim.evidence == "direct"
    agree = Verdict.SUPPORTED if direct else Verdict.SAME_DIRECTION
    against = Verdict.CONTRADICTED if direct else Verdict.OPPOSITE
    if claim.endpoint.kind == "published_equal":
        return agree if abs(effect.value) < 1e-9 else against
    if claim.direction is None:
        return Verdict.NOT_TESTABLE
    if effect.low is None or effect.high is None:
        return Verdict.INCONCLUSIVE
    if claim.unit == "seed" and effect.num_seeds < MIN_SEEDS:
        return Verdict.INCONCLUSIVE
    if claim.direction == "held":
        margin = claim.margin or 0.0
        if -margin < effect.low and effect.high < margin:
            return agree
        return against if effect.low > margin or effect.high < -margin else Verdict.INCONCLUSIVE
    low, high = (effect.low, effect.high) if claim.direction == "up" else (-effect.high, -effect.low)
    if low > 0:
        return agree
    return against if high < 0 else Verdict.INCONCLUSIVE


def about_arms(claims: Sequence[Claim]) -> list[Claim]:
    """Those that experiment arms decide; the others need a whole run."""
    return [claim for claim in claims if isinstance(claim.endpoint, ArmDifference)]


def without_effect(claim: Claim, preset: str) -> Verdict | None:
    """The verdict of a claim that this preset cannot measure; None when it can try."""
    nowhere = claim.presets == [] or (claim.endpoint.kind == "none" and claim.presets is None)
    if claim.press_only or nowhere:
        return Verdict.NOT_RUN if claim.cost and not claim.press_only else Verdict.NOT_TESTABLE
    if claim.presets is not None and preset not in claim.presets:
        return Verdict.NOT_RUN
    return Verdict.NOT_TESTABLE if claim.endpoint.kind == "none" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict(Stored):
    """One row of claims.json: a claim, the measured effect and the verdict."""

    id: str
    text: str
    source: list[str]
    published: list[str]
    evidence: Evidence
    endpoint: dict[str, Any]
    direction: Direction | None
    unit: Unit
    family: str
    criterion: str
    cost: str | None
    press_only: bool
    verdict: Verdict
    scale: str | None = None
    """Preset of the run that measured it."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    """Level of the interval, after Holm's adjustment."""
    p: float | None = None
    p_holm: float | None = None
    seeds: int | None = None
    questions: int | None = None
    note: str = ""


def judge(
    claims: Sequence[Claim], measure: Measure, *, preset: str, alpha: float = 0.05
) -> list[ClaimVerdict]:
    """Verdict rows of all claims, in their order.

    Intervals are drawn at Holm's level within each family, over the claims of it that this run measured.
    """
    testable = [claim for claim in claims if without_effect(claim, preset) is None]
    first = {claim.id: measure(claim, 1 - alpha) for claim in testable}
    levels, adjusted = _holm_by_family(testable, first, alpha)
    rows = []
    for claim in claims:
        verdict = without_effect(claim, preset)
        effect, note = None, None
        if verdict is None:
            level = levels.get(claim.id, 1 - alpha)
            found = first[claim.id] if level == 1 - alpha else measure(claim, level)
            if isinstance(found, Unavailable):
                verdict, note = Verdict.NOT_TESTABLE, f"not available: {found.reason}"
            else:
                effect = found
                verdict = Verdict.NOT_RUN if effect is None else decide(claim, effect)
        row = _row(claim, verdict, effect, adjusted.get(claim.id), levels.get(claim.id), preset)
        rows.append(row if note is None else replace(row, note=note))
    return rows


def _holm_by_family(
    claims: Sequence[Claim], effects: Mapping[str, Effect | Unavailable | None], alpha: float
) -> tuple[dict[str, float], dict[str, float]]:
    levels: dict[str, float] = {}
    adjusted: dict[str, float] = {}
    for family in dict.fromkeys(claim.family for claim in claims):
        tested = {
            claim.id: effect.p
            for claim in claims
            if claim.family == family
            and isinstance(effect := effects[claim.id], Effect)
            and effect.p is not None
        }
        p = list(tested.values())
        levels |= dict(zip(tested, holm_confidence(p, alpha), strict=True))
        adjusted |= dict(zip(tested, holm(p), strict=True))
    return levels, adjusted


def _row(
    claim: Claim,
    verdict: Verdict,
    effect: Effect | None,
    p_holm: float | None,
    level: float | None,
    preset: str,
) -> ClaimVerdict:
    described = claim.model_dump(mode="json", exclude={"presets", "margin"})
    if verdict is Verdict.NOT_RUN and not claim.cost:
        described["cost"] = "the step that measures it has not run: snakemake --cores all reproduce"
    row = ClaimVerdict(**described, verdict=verdict, confidence=level, p_holm=p_holm)
    if effect is None:
        return row
    return replace(
        row,
        scale=preset,
        value=effect.value,
        low=_finite(effect.low),
        high=_finite(effect.high),
        p=_finite(effect.p),
        seeds=effect.num_seeds,
        questions=effect.num_questions,
        note=effect.note,
    )


def _finite(value: float | None) -> float | None:
    """The interval of a single value has no end, and JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
