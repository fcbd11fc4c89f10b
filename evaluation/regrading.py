"""`regrade_file`: grades stored text again with the current graders, and reports what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.questions import Questions, require_checker
from records.files import write_text
from records.run_folder import SUMMARY
from records.verdict import VerdictKind
from verifier.benchmarks import Benchmark, DataUnavailable, PromptKind, Scoring, WrongData, benchmark
from verifier.graders.policy import EVAL_GRADERS

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Trajectory
    from verifier.bfcl.episodes import RunCode


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
    """Samples with different verdicts of the two graders."""
    flips: list[Flip] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def regrade_file(
    samples: Path,
    *,
    golds: Path | None = None,
    data: Path | None = None,
    out: Path | None = None,
    seed: int | None = None,
) -> RegradeReport:
    """Grade every trajectory of a samples file with every grader of its benchmark; nothing is sampled.

    Args:
        samples: JSONL or Parquet of trajectory rows (`records.trajectory_row`).
        golds: JSONL of {id, answer}; without it, the benchmarks named in the samples are loaded.
        data: data folder for those benchmarks.
        out: where to write the samples with their new verdicts, JSONL.
        seed: eval.seed of the evaluation, which determined the order of options; default: from the summary.json
            next to the samples.

    Raises:
        RegradeError: a file cannot be read, or a problem has no gold.
    """
    from records.trajectory_row import from_row, to_row

    report = RegradeReport()
    lines: list[str] = []
    with ExitStack() as stack:
        grader = _Grader(samples, _golds(golds) if golds else None, data, seed, stack)
        for number, record in enumerate(_records(samples), 1):
            try:
                trajectory = from_row(record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise RegradeError(f"{samples}: row {number} is no sample of this suite: {error!r}") from None
            after = grader.grade(trajectory)
            _note(report, trajectory, after)
            if out is not None:
                verdicts = {name: verdict.without_clock() for name, verdict in after.items()}
                lines.append(json.dumps(to_row(replace(trajectory, verdicts=verdicts)), ensure_ascii=False))
    if report.num_samples == 0:
        raise RegradeError(f"{samples}: holds no samples")
    if out is not None:
        write_text(out, "".join(line + "\n" for line in lines))
    return report


def _note(report: RegradeReport, trajectory: Trajectory, after: dict[str, Any]) -> None:
    report.num_samples += 1
    graders = [str(name) for name in EVAL_GRADERS if name in after]
    if any(after[name].verdict is VerdictKind.INFRA_FAILED for name in graders):
        graders = []  # a lost verdict is no disagreement
    report.num_disagreements += len({after[name].verdict is VerdictKind.CORRECT for name in graders}) > 1
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


@dataclass(slots=True)
class _Grader:
    """The benchmarks of the samples read so far, loaded once."""

    samples: Path
    golds: dict[str, str] | None
    data: Path | None
    seed: int | None
    stack: ExitStack
    known: dict[str, tuple[Questions, dict[str, Problem]]] = field(default_factory=dict)
    run_code: RunCode | None = None

    def grade(self, trajectory: Trajectory) -> dict[str, Any]:
        name = trajectory.benchmark
        if name not in self.known:
            self.known[name] = self._load(name)
        questions, problems = self.known[name]
        if trajectory.problem not in problems:
            raise RegradeError(
                f"{self.samples}: problem {trajectory.problem!r} has no gold; pass --golds FILE with its answer"
            )
        if questions.needs_backend and self.run_code is None:
            from evaluation.evaluate import open_services

            self.run_code = self.stack.enter_context(open_services(1))
        return questions.grade(problems[trajectory.problem], trajectory, self.run_code)

    def _load(self, name: str) -> tuple[Questions, dict[str, Problem]]:
        """Return the benchmark's questions with both graders; the golds come from the file, if there is one."""
        from records.problem import Problem

        try:
            declared = benchmark(name)
        except ValueError:
            if self.golds is None:
                raise RegradeError(f"samples of {name!r}, which is no benchmark: pass --golds FILE") from None
            declared = replace(benchmark("math500"), name=name)
        if declared.scoring is Scoring.ANSWER and declared.prompt is PromptKind.AGENTIC:
            declared = replace(declared, policy=replace(declared.policy, graders=EVAL_GRADERS))
            if self.golds is not None:
                problems = [Problem(id=id, prompt="", answer=answer) for id, answer in self.golds.items()]
                return _questions(declared, problems, 0)
        try:
            require_checker(declared)
            return _questions(declared, declared.load(self.data), self._seed(declared))
        except (DataUnavailable, WrongData) as error:
            raise RegradeError(f"{error}; or pass --golds FILE") from None

    def _seed(self, declared: Benchmark) -> int:
        if declared.prompt is not PromptKind.CHOICE:
            return 0
        if self.seed is not None:
            return self.seed
        summary = self.samples.with_name(SUMMARY)
        try:
            return int(json.loads(summary.read_text("utf-8"))["settings"]["eval"]["seed"])
        except (OSError, ValueError, KeyError, TypeError):
            raise RegradeError(
                f"{self.samples}: without {summary.name} next to it the order of options is unknown; pass --seed"
            ) from None


def _questions(
    declared: Benchmark, problems: list[Problem], seed: int
) -> tuple[Questions, dict[str, Problem]]:
    questions = Questions(benchmark=declared, problems=problems, seed=seed)
    return questions, {problem.id: problem for problem in problems}


def _golds(path: Path) -> dict[str, str]:
    try:
        return {
            str(row["id"]): str(row["answer"])
            for row in map(json.loads, path.read_text("utf-8").splitlines())
            if row
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RegradeError(f"{path}: not a JSONL of {{id, answer}}: {error!r}") from None


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise RegradeError(f"cannot read {path}: {'it is no file' if path.exists() else 'no such file'}")
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
                    except (ValueError, RecursionError) as error:
                        raise RegradeError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise RegradeError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RegradeError(f"cannot read {path}: is not UTF-8 text") from None
