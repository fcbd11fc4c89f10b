"""Grading stored text again: the same samples, today's graders, and what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from verifier.benchmarks import DataUnavailable, WrongData, benchmark
from verifier.grade import grade
from verifier.policy import EVAL_GRADERS, GradePolicy


class RegradeError(ValueError):
    """The samples or golds cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    benchmark: str
    problem: str
    sample: int
    grader: str
    before: str
    after: str
    rule: str


@dataclass(slots=True, kw_only=True)
class RegradeReport:
    num_samples: int = 0
    num_disagreements: int = 0
    """Samples that the two graders judge differently."""
    flips: list[Flip] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def regrade_file(
    samples: Path, *, golds: Path | None = None, data: Path | None = None, out: Path | None = None
) -> RegradeReport:
    """Grade every trajectory of a samples file with both graders.

    Args:
        samples: JSONL or Parquet of `Trajectory.to_json` records.
        golds: JSONL of {id, answer}; else the benchmarks named in the samples are loaded.
        data: data folder for those benchmarks.
        out: where to write the samples with their new verdicts, JSONL.

    Raises:
        RegradeError: a file cannot be read, or a problem has no gold.
    """
    from trainer.types import Problem, Trajectory

    answers = _golds(golds) if golds is not None else {}
    policies: dict[str, GradePolicy] = {}
    report = RegradeReport()
    lines: list[str] = []
    for record in _records(samples):
        trajectory = Trajectory.from_json(record)
        if trajectory.benchmark not in policies:
            policies[trajectory.benchmark] = _prepare(trajectory.benchmark, answers, golds, data)
        if trajectory.problem not in answers:
            raise RegradeError(
                f"{samples}: problem {trajectory.problem!r} has no gold; pass --golds FILE with its answer"
            )
        problem = Problem(id=trajectory.problem, prompt="", answer=answers[trajectory.problem])
        after = grade(problem, trajectory, policies[trajectory.benchmark])
        report.num_samples += 1
        report.num_disagreements += len({verdict.verdict == "correct" for verdict in after.values()}) > 1
        for name, verdict in after.items():
            before = trajectory.verdicts.get(name)
            if before is not None and before.verdict is not verdict.verdict:
                report.flips.append(
                    Flip(
                        benchmark=trajectory.benchmark,
                        problem=trajectory.problem,
                        sample=trajectory.sample,
                        grader=str(name),
                        before=before.verdict.value,
                        after=verdict.verdict.value,
                        rule=verdict.rule,
                    )
                )
        trajectory.verdicts = {str(name): verdict.without_clock() for name, verdict in after.items()}
        if out is not None:
            lines.append(json.dumps(trajectory.to_json(), ensure_ascii=False))
    if out is not None:
        out.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return report


def _prepare(name: str, answers: dict[str, str], golds: Path | None, data: Path | None) -> GradePolicy:
    """The benchmark's policy with both graders; loads its golds unless a file gave them."""
    try:
        declared = benchmark(name)
    except ValueError:
        if golds is None:
            raise RegradeError(f"samples of {name!r}, which is no benchmark: pass --golds FILE") from None
        return GradePolicy(graders=EVAL_GRADERS)
    if golds is None:
        try:
            answers.update((problem.id, problem.answer) for problem in declared.load(data))
        except (DataUnavailable, WrongData) as error:
            raise RegradeError(f"{error}; or pass --golds FILE") from None
    return GradePolicy(
        require=declared.policy.require, integer_only=declared.policy.integer_only, graders=EVAL_GRADERS
    )


def _golds(path: Path) -> dict[str, str]:
    try:
        return {
            str(row["id"]): str(row["answer"])
            for row in map(json.loads, path.read_text("utf-8").splitlines())
            if row
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RegradeError(f"{path}: not a JSONL of {{id, answer}}: {error!r}") from None


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        try:
            yield from pq.read_table(path).to_pylist()
        except (OSError, ValueError) as error:
            raise RegradeError(f"{path}: {error}") from None
        return
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError as error:
                        raise RegradeError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise RegradeError(f"cannot read {path}: {error.strerror}") from None
