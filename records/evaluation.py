"""`EvaluationSummary`: summary.json of one evaluation, which `evaluation` writes and `analysis` reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from records.errors import ConfigError
from records.run_folder import SUMMARY
from records.stored import Stored, read_record, write_record

RING_LABELS = {
    "procedural-numbers": "new numbers",
    "procedural-composition": "known pairs in the other order",
    "procedural-wording": "new wording",
    "procedural-family": "new family",
}
"""Test ring -> what a reader calls it. SFT and train hold every pair of the second ring with its parts exchanged."""
RINGS = tuple(RING_LABELS)
POOLED = "procedural"
"""The test rings together."""
REMEDY = "write it with python -m evaluation run"

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Temperature = Annotated[float, Field(ge=0)]
ControlName = Literal["none", "tool_off", "shuffled_golds", "mute"]
ScoreGrader = Literal["strict", "rstar_compat", "loose"]
Outcomes = dict[str, Annotated[list[Share], Field(min_length=1)]]
Json = dict[str, Any]
"""A stored config section; compared leaf by leaf, never looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(Stored):
    """One number of an evaluation; values are fractions in [0, 1]."""

    checkpoint: str
    benchmark: str
    metric: Annotated[str, Field(pattern=r"^[a-z0-9_^@]+$")]
    """avg@k, pass@k, pass^k (all right), cons@k (the vote), chance (the best constant answer per family), or a number
    that one benchmark defines."""
    temperature: Temperature
    control: ControlName
    value: Share
    low: float
    high: float
    num_questions: Annotated[int, Field(ge=1)]
    num_samples: Annotated[int, Field(ge=1)]
    grader: ScoreGrader
    questions: Outcomes = field(default_factory=dict)
    """Question -> outcome of each sample, for pairing; empty for a number that is no average."""
    question_se: float | None = None
    """Standard error for questions like these."""
    rerun_se: float | None = None
    """Standard error over these questions, sampled again."""

    @property
    def key(self) -> tuple[object, ...]:
        """Identity within a run."""
        return (
            self.checkpoint, self.benchmark, self.control, self.metric, self.temperature, self.grader,
            self.num_questions,
        )  # fmt: skip

    @property
    def follows_from_outcomes(self) -> bool:
        """Return whether value, counts and k of an average agree with its outcomes; True without outcomes."""
        outcomes = list(self.questions.values())
        if not outcomes:
            return True
        mean = sum(sum(values) / len(values) for values in outcomes) / len(outcomes)
        return (
            abs(mean - self.value) <= 1e-9
            and self.num_questions == len(outcomes)
            and self.num_samples == sum(map(len, outcomes))
            and (not self.metric.startswith("avg@") or self.metric == f"avg@{min(map(len, outcomes))}")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour(Stored):
    """How the samples of one benchmark ended and how long they were."""

    checkpoint: str
    benchmark: str
    temperature: Temperature
    control: str
    numbers: dict[str, float]
    """Name -> share, mean or count: the training metrics, and those of `evaluation.scores.behaviour`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionNumbers(Stored):
    """IFEval's four numbers; None where no sample could be graded."""

    checkpoint: str
    benchmark: str
    temperature: Temperature
    num_samples: Count
    prompt_strict: Share | None
    prompt_loose: Share | None
    instruction_strict: Share | None
    instruction_loose: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryScore(Stored):
    value: Share
    num_questions: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCallNumbers(Stored):
    """BFCL by category, and the weighted scores if all categories are present."""

    checkpoint: str
    benchmark: str
    mode: str
    temperature: Temperature
    categories: dict[str, CategoryScore]
    v3: dict[str, float] | None
    v3_without_known_issues: dict[str, float] | None
    v4_weights: dict[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCounts(Stored):
    """How often each option of a multiple choice is right, and how often the model picks it."""

    benchmark: str
    temperature: Temperature
    golds: dict[str, int]
    predictions: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderDisagreement(Stored):
    """A sample that the two graders judge differently."""

    benchmark: str
    problem: str
    sample: Count
    strict: str
    rstar_compat: str
    extracted: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperDifference(Stored):
    """One setting of one benchmark that differs from the paper's."""

    benchmark: str
    setting: str
    paper: str
    here: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable(Stored):
    """A benchmark that was not evaluated, and how to get it."""

    benchmark: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Stored):
    """Config sections of the samples, and the seed and confidence of the intervals."""

    plans: list[Json]
    eval: Json
    rollout: Json
    sandbox: Json
    intervals: Json = field(default_factory=dict)
    """analysis.seed and analysis.confidence; no sample depends on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSummary(Stored):
    """All results of an evaluation except the samples file, which it names by digest."""

    checkpoint_digest: str
    fingerprint: str
    """Digest of everything that decides the samples."""
    engine: str
    """local, vllm, or the address of a server."""
    served_model: str | None
    variant: str | None
    settings: Settings
    benchmarks: dict[str, str]
    """Benchmark -> digest of its questions and golds."""
    policies: Json
    """The grading rules."""
    samples_sha256: str
    scores: list[Score]
    paper_differences: list[PaperDifference] = field(default_factory=list)
    unavailable: list[Unavailable] = field(default_factory=list)
    behaviour: list[Behaviour] = field(default_factory=list)
    instructions: list[InstructionNumbers] = field(default_factory=list)
    function_calls: list[FunctionCallNumbers] = field(default_factory=list)
    letters: list[LetterCounts] = field(default_factory=list)
    grader_disagreements: list[GraderDisagreement] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read folder/summary.json.

        Raises:
            ConfigError: missing, of another shape, or with a score that is repeated or disagrees with its outcomes.
        """
        path = folder / SUMMARY
        summary = read_record(cls, path, REMEDY)
        _check_scores(summary.scores, path)
        return summary

    def write(self, folder: Path) -> None:
        """Write folder/summary.json, atomically."""
        write_record(folder / SUMMARY, self)


def _check_scores(scores: Sequence[Score], path: Path) -> None:
    keys: set[tuple[object, ...]] = set()
    for score in scores:
        name = f"{score.benchmark} {score.metric}"
        if not score.follows_from_outcomes:
            raise ConfigError(
                f"{path}: {name} ({score.control}, {score.grader}) does not follow from the outcomes beside it; "
                f"{REMEDY}"
            )
        if score.key in keys:
            raise ConfigError(f"{path}: {name} of {score.checkpoint} comes twice; {REMEDY}")
        keys.add(score.key)
