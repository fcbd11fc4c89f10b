"""`judge`: the verdict that a run's stored results give on each claim of the paper and of the press.

Verdicts are computed: `analysis.claims.effects` gives an effect with an interval, `decide` turns it into a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from analysis.claims.endpoints import (
    ArmDifference,
    Claim,
    Direction,
    Evidence,
    Published,
    PublishedDifference,
    Unit,
)
from analysis.claims.multiplicity import holm, holm_confidence
from analysis.claims.units import EffectUnit, unit_of
from records.stored import Stored

MIN_CHECKPOINTS = 5
"""Training claims over fewer SFT checkpoints are inconclusive at most."""


class Verdict(StrEnum):
    """Outcome of a claim in one run."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    SAME_DIRECTION = "same_direction"
    OPPOSITE = "opposite"
    AGREES = "agrees"
    DISAGREES = "does_not_agree"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTABLE = "not_testable"
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A measured endpoint, signed as b minus a (or value minus reference)."""

    value: float
    low: float | None
    """None: no interval exists."""
    high: float | None
    p: float | None = None
    """Unadjusted; None where no test exists."""
    num_questions: int | None = None
    num_units: int | None = None
    """SFT checkpoints, steps or workload seeds behind the interval, where questions are not."""
    smallest: float | None = None
    """Smallest effect that such a comparison shows with 80% power; None where it is not computed."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The step that measures the endpoint ran, but its data cannot decide: the row is marked, not judged."""

    reason: str


Measure = Callable[[Claim, float], Effect | Unavailable | None]
"""(claim, confidence) -> effect; None where this run has no data for it."""


def words(claim: Claim) -> tuple[Verdict, Verdict]:
    """Return the verdicts for an effect in the published direction and against it, by the kind of evidence."""
    match claim.evidence:
        case "direct":
            return Verdict.SUPPORTED, Verdict.CONTRADICTED
        case "arithmetic":
            return Verdict.AGREES, Verdict.DISAGREES
        case _:
            return Verdict.SAME_DIRECTION, Verdict.OPPOSITE


def reachable(claim: Claim) -> frozenset[Verdict]:
    """The verdicts that the endpoint of a claim allows once it is measured."""
    exact = isinstance(claim.endpoint, Published)
    return frozenset(words(claim)) | (frozenset() if exact else {Verdict.INCONCLUSIVE})


def decide(claim: Claim, effect: Effect) -> Verdict:
    """Return the verdict of a measured effect, whose interval must already be at the adjusted level.

    Off 0 in the published direction or against it: see `words`; else inconclusive. 'Held' requires an interval inside
    the margin, and is refuted by one that is wholly outside. Exact arithmetic agrees where its error is 0.

    >>> from analysis.claims.endpoints import NoEndpoint
    >>> claim = Claim(id="x", text="", source=[], published=[], evidence="proxy", endpoint=NoEndpoint(kind="none"),
    ...               direction="up", unit="question", family="f", criterion="")
    >>> str(decide(claim, Effect(value=0.2, low=0.1, high=0.3)))
    'same_direction'
    >>> str(decide(claim, Effect(value=0.2, low=-0.1, high=0.5)))
    'inconclusive'
    """
    agree, against = words(claim)
    if isinstance(claim.endpoint, Published):
        return agree if effect.value == 0 else against
    if claim.direction is None:
        return Verdict.NOT_TESTABLE
    if effect.low is None or effect.high is None:
        return Verdict.INCONCLUSIVE
    if claim.unit == "checkpoint" and (effect.num_units or 0) < MIN_CHECKPOINTS:
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
    """Return the claims that experiment arms decide; the others require a whole run."""
    return [claim for claim in claims if isinstance(claim.endpoint, ArmDifference)]


def is_of_the_paper_alone(claim: Claim) -> bool:
    """Return whether the claim covers published numbers only, so that no run changes its verdict."""
    return isinstance(claim.endpoint, Published | PublishedDifference)


def without_effect(claim: Claim, preset: str) -> Verdict | None:
    """Return the verdict of a claim that this preset cannot measure; None when it can try."""
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
    effect_unit: EffectUnit | None = None
    value: float | None = None
    """In `effect_unit`; a share is a fraction."""
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    """Level of the interval, after Holm's adjustment."""
    p: float | None = None
    p_holm: float | None = None
    units: int | None = None
    """SFT checkpoints, steps or workload seeds."""
    questions: int | None = None
    smallest: float | None = None
    """Smallest effect that such a comparison shows with 80% power."""
    note: str = ""


def judge(
    claims: Sequence[Claim], measure: Measure, *, preset: str, alpha: float = 0.05
) -> list[ClaimVerdict]:
    """Return the verdict rows of all claims, in their order.

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
    row = ClaimVerdict(
        **described, effect_unit=unit_of(claim.endpoint), verdict=verdict, confidence=level, p_holm=p_holm
    )
    if effect is None:
        return row
    return replace(
        row,
        scale=preset,
        value=effect.value,
        low=_finite(effect.low),
        high=_finite(effect.high),
        p=_finite(effect.p),
        units=effect.num_units,
        questions=effect.num_questions,
        smallest=_finite(effect.smallest),
        note=effect.note,
    )


def _finite(value: float | None) -> float | None:
    """Return None for infinity: the interval of a single value is unbounded, and JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
