"""`Claim` and `Endpoint`: one row of results/reference/claims.yaml, and the quantity that it measures.

The rows are fixed before any run. `analysis.claims.effects` measures the endpoints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from records.errors import ConfigError
from records.files import read_text
from records.stored import first_problem


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScoreDifference(_Closed):
    """Score of checkpoint b minus that of a, paired by question."""

    kind: Literal["score_difference"]
    a: str
    b: str
    benchmark: str


class ScoreShare(_Closed):
    """Gain from `start` to `at`, minus half of the gain from `start` to `end`, paired by question."""

    kind: Literal["score_share"]
    start: str
    at: str
    end: str
    benchmark: str


class ScoreLevel(_Closed):
    """A score minus a published one, on the same questions: the interval is that of sampling them again, twice."""

    kind: Literal["score_level"]
    checkpoint: str
    benchmark: str
    reference: float


class LengthLevel(_Closed):
    """Mean response tokens of a checkpoint minus a published mean."""

    kind: Literal["length_level"]
    checkpoint: str
    benchmark: str
    reference: float


class MetricLevel(_Closed):
    """Mean of a training metric over the last third of a stage of this run, minus a reference; unit: step."""

    kind: Literal["metric_level"]
    stage: str
    metric: str
    reference: float


class MetricSlope(_Closed):
    """Least-squares slope per step of a training metric over all RL steps of this run; unit: step."""

    kind: Literal["metric_slope"]
    metric: str


class ArmDifference(_Closed):
    """An endpoint of arm b minus that of arm a, paired by seed, over SFT checkpoints."""

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


class Latency(_Closed):
    """Mean latency of the sandbox under the paper's rate of calls, open loop, minus a published one, seconds."""

    kind: Literal["latency"]
    reference_s: float


class WallTime(_Closed):
    """Wall days of the RL stages minus a published number of days."""

    kind: Literal["wall_time"]
    reference_days: float


Cell = Annotated[tuple[str, str, str], Field(strict=False)]
"""Table, row and column of paper.yaml."""


class PublishedDifference(_Closed):
    """Two published percentages on as many questions: b minus a."""

    kind: Literal["published_difference"]
    a: Cell
    b: Cell
    num_questions: int


class PublishedGap(_Closed):
    """The difference b - a of two published cells, against the difference that the prose states."""

    kind: Literal["published_gap"]
    a: Cell
    b: Cell
    stated: float


class PublishedSum(_Closed):
    """The sum of published parts, against the total that the prose states; both in the total's unit."""

    kind: Literal["published_sum"]
    parts: Annotated[tuple[float, ...], Field(strict=False)]
    stated: float


class PublishedGranularity(_Closed):
    """Whether a published percentage can be a mean of that many 0/1 outcomes, at the printed digits."""

    kind: Literal["published_granularity"]
    cell: Cell
    num_outcomes: int
    digits: int


class PublishedFilter(_Closed):
    """Share of problems that a filter left, against the most that another statement allows."""

    kind: Literal["published_filter"]
    before: float
    after: float
    at_most: float


class NoEndpoint(_Closed):
    """An endpoint that no run of this suite can measure."""

    kind: Literal["none"]


Published = PublishedGap | PublishedSum | PublishedGranularity | PublishedFilter
"""Exact arithmetic on published numbers: it agrees or does not."""
Evidence = Literal["direct", "proxy", "simulated", "arithmetic"]
Direction = Literal["up", "down", "held"]
Unit = Literal["question", "step", "checkpoint", "workload", "none"]
"""Unit of an interval. Only `checkpoint` covers another training; question and step cover one run."""
Endpoint = Annotated[
    ScoreDifference
    | ScoreShare
    | ScoreLevel
    | LengthLevel
    | MetricLevel
    | MetricSlope
    | ArmDifference
    | EntropyContrast
    | TurnStartContrast
    | ZoneLift
    | LexicalLift
    | SchedulerRatio
    | Latency
    | WallTime
    | PublishedDifference
    | PublishedGap
    | PublishedSum
    | PublishedGranularity
    | PublishedFilter
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
    """Half width of 'held', in the unit of the effect, fixed beforehand."""
    unit: Unit
    family: str
    """Claims of one family share Holm's correction."""
    criterion: str
    presets: list[str] | None = None
    """Where the endpoint exists; null: everywhere; empty: nowhere."""
    cost: str | None = None
    """Requirements of a measurement, where this run cannot make it."""
    press_only: bool = False

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        if self.endpoint.kind == "none":
            return self
        if (self.direction == "held") != (self.margin is not None):
            raise ValueError(f"{self.id}: `margin` belongs to direction held, and held needs one")
        exact = isinstance(self.endpoint, Published)
        if exact != (self.direction is None):
            raise ValueError(f"{self.id}: a measured effect needs a direction, exact arithmetic has none")
        if (self.unit == "checkpoint") != isinstance(self.endpoint, ArmDifference):
            raise ValueError(f"{self.id}: the unit of arms, and of nothing else, is the SFT checkpoint")
        return self


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
