"""`publish`: writes the files of one evaluation, from the findings of all its plans."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.published_scores import beside_published
from evaluation.scores.score_rows import disagreements
from records.evaluation import (
    Behaviour,
    EvaluationSummary,
    FunctionCallNumbers,
    InstructionNumbers,
    LetterCounts,
    PaperDifference,
    Score,
    Settings,
    Unavailable,
)
from records.files import sha256_of, write_json, write_text
from records.manifest import RUN
from records.run_folder import SAMPLES, SUMMARY
from verifier.graders.policy import RULES

if TYPE_CHECKING:
    from records.trajectory import GradedRollout


@dataclass(slots=True, kw_only=True)
class Findings:
    """Samples and numbers of an evaluation, collected plan by plan."""

    trajectories: list[GradedRollout] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    behaviour: list[Behaviour] = field(default_factory=list)
    instructions: list[InstructionNumbers] = field(default_factory=list)
    function_calls: list[FunctionCallNumbers] = field(default_factory=list)
    letters: list[LetterCounts] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Fields of the summary that are fixed before sampling; see `EvaluationSummary`."""

    checkpoint_digest: str
    fingerprint: str
    engine: str
    served_model: str | None
    variant: str | None
    settings: Settings
    benchmarks: dict[str, str]
    paper_differences: list[PaperDifference]


def publish(found: Findings, provenance: Provenance, out: Path, seconds: float) -> EvaluationSummary:
    """Write samples.parquet, run.json, table.md and, last, summary.json into `out`."""
    of = provenance
    summary = EvaluationSummary(
        checkpoint_digest=of.checkpoint_digest,
        fingerprint=of.fingerprint,
        engine=of.engine,
        served_model=of.served_model,
        variant=of.variant,
        settings=of.settings,
        benchmarks=of.benchmarks,
        policies=dict(RULES),
        samples_sha256=_write_samples(found.trajectories, out),
        scores=found.scores,
        paper_differences=of.paper_differences,
        unavailable=[Unavailable(benchmark=name, how=how) for name, how in sorted(found.unavailable.items())],
        behaviour=found.behaviour,
        instructions=found.instructions,
        function_calls=found.function_calls,
        letters=found.letters,
        grader_disagreements=disagreements(found.trajectories),
    )
    write_json(out / RUN, {"seconds": seconds, "finished_unix_s": time.time()})
    write_text(out / "table.md", beside_published(summary.scores))
    summary.write(out)
    return summary


def _write_samples(trajectories: Sequence[GradedRollout], out: Path) -> str:
    """Write samples.parquet; return its sha256. An older summary is deleted first: it belongs to other samples."""
    from records.trajectory_files import write_parquet

    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).unlink(missing_ok=True)
    write_parquet(trajectories, out / SAMPLES)
    return sha256_of(out / SAMPLES)
