"""`Questions`: the questions of an evaluation: loaded, limited, arranged for each repeat, graded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from config.model import EvalPlan, RuntimeSection
from records.digest import digest
from records.errors import ConfigError
from records.evaluation import POOLED, RINGS
from verifier.benchmarks import Benchmark, DataUnavailable, PromptKind, Scoring, WrongData, benchmark
from verifier.bfcl.calls import Kind, kind_of, published_checker

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import GradedRollout, Rollout
    from records.verdict import Verdict
    from verifier.bfcl.episodes import RunCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The problems of one benchmark in a plan."""

    benchmark: Benchmark
    problems: list[Problem]
    seed: int = 0
    """Seed of the order of options."""

    def as_asked(self, problem: Problem, sample: int) -> Problem:
        """Return the problem for sample number `sample`: each repeat has another order of options."""
        if self.benchmark.prompt is not PromptKind.CHOICE:
            return problem
        from verifier.benchmarks.gpqa_diamond import rearrange

        return rearrange(problem, seed=self.seed, repeat=sample)

    @property
    def digest(self) -> str:
        """Return the identity of questions and golds: evaluations with different digests are not comparable."""
        return digest([[problem.id, problem.prompt, problem.answer] for problem in self.problems])

    @property
    def needs_backend(self) -> bool:
        """Return whether there are conversations, whose calls run in a sandbox."""
        return self.benchmark.scoring is Scoring.FUNCTION_CALLS and any(
            kind_of(problem.family) is Kind.MULTI_TURN for problem in self.problems
        )

    def vote(self, trajectory: GradedRollout) -> str | None:
        """Return the answer of a graded sample; a letter becomes its option, because letters differ between repeats."""
        extracted = trajectory.verdicts["strict"].extracted
        if self.benchmark.prompt is not PromptKind.CHOICE:
            return extracted
        from verifier.benchmarks.gpqa_diamond import LETTERS, option_order

        if extracted is None or extracted not in set(LETTERS):
            return None
        order = option_order(trajectory.problem, seed=self.seed, repeat=trajectory.sample)
        return str(order[LETTERS.index(extracted)])

    def grade(
        self, problem: Problem, rollout: Rollout, run_code: RunCode | None = None
    ) -> dict[str, Verdict]:
        """Return the verdicts of one sample, by name of grader.

        Args:
            problem: as loaded; the sample's number determines the order of options.
            rollout: the sample.
            run_code: runs the services of conversations; see `verifier.bfcl.episodes`.
        """
        if self.benchmark.scoring is Scoring.FUNCTION_CALLS and kind_of(problem.family) is Kind.MULTI_TURN:
            from verifier.bfcl.episodes import grade_conversation

            if run_code is None:
                raise ValueError(f"{problem.id} is a conversation: its calls require a sandbox")
            return grade_conversation(problem, rollout, run_code)
        return self.benchmark.grade(self.as_asked(problem, rollout.sample), rollout)


def questions_of(
    plan: EvalPlan, runtime: RuntimeSection, rings: Path | None, seed: int, unavailable: dict[str, str]
) -> list[Questions]:
    """Load each benchmark of a plan; an unavailable one becomes a row with the way to get it.

    Raises:
        ConfigError: no such benchmark, or its data are not those of the benchmark.
    """
    found = []
    names = [ring for name in plan.benchmarks for ring in (RINGS if name == POOLED else (name,))]
    for name in names:
        declared = benchmark(name)
        data = rings if name.startswith("procedural-") else _folder(runtime.paths.data)
        try:
            problems = limited(declared.load(data), plan.limit, seed)
            require_checker(declared)
        except DataUnavailable as error:
            unavailable[name] = str(error)
            continue
        except WrongData as error:
            raise ConfigError(str(error)) from None
        found.append(Questions(benchmark=declared, problems=problems, seed=seed))
    return found


def require_checker(declared: Benchmark) -> None:
    """Raise DataUnavailable before sampling if a benchmark's own checker is missing."""
    if declared.scoring is Scoring.FUNCTION_CALLS:
        published_checker()
    elif declared.scoring is Scoring.INSTRUCTIONS:
        from verifier.ifeval.checks import require_checks

        require_checks()


def refuse_twice(asked: Sequence[tuple[EvalPlan, Sequence[Questions]]]) -> None:
    """Refuse plans that contain the same sampling twice, before the sampling starts."""
    seen: set[tuple[str, float, str]] = set()
    for plan, questions in asked:
        for one in questions:
            sampling = (one.benchmark.name, plan.temperature, plan.control.value)
            if sampling in seen:
                raise ConfigError(
                    f"eval.plans: {one.benchmark.name} at temperature {plan.temperature:g}, control "
                    f"{plan.control.value}, is asked twice of one checkpoint; name it once"
                )
            seen.add(sampling)


def limited(problems: list[Problem], limit: int | None, seed: int) -> list[Problem]:
    """Return all problems, or a seeded draw of `limit` of them in their order."""
    if limit is None or limit >= len(problems):
        return problems
    chosen = set(random.Random(f"limit:{seed}").sample(range(len(problems)), limit))
    return [problem for index, problem in enumerate(problems) if index in chosen]


def _folder(data: str | None) -> Path | None:
    return None if data is None else Path(data)
