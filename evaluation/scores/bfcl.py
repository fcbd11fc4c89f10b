"""`function_scores`: BFCL's categories, three groups and weighted total as score rows with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.scores.score_rows import Slice, outcomes_of, score
from records.evaluation import CategoryScore, FunctionCallNumbers, Score
from records.statistics import wilson
from verifier.benchmarks import Benchmark
from verifier.bfcl.calls import CATEGORIES, MULTI_TURN, overall, overall_v4

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import GradedRollout

DRAWS = 1000


def function_scores(
    problems: Sequence[Problem], trajectories: Sequence[GradedRollout], about: Slice
) -> list[Score]:
    """Return the plain average over entries and, with all 17 categories, the v3 score and its three groups.

    Without all categories there is no v3 score, because a missing one would count as 0.
    """
    outcomes = outcomes_of(trajectories, about.grader)
    rows = score(outcomes, about)
    by_category = _by_category(problems, outcomes)
    if not rows or set(by_category) != set(CATEGORIES):
        return rows
    counts = {name: len(values) for name, values in by_category.items()}
    value = overall({name: float(np.mean(values)) for name, values in by_category.items()}, counts)
    drawn = overall(_resampled(by_category, about.seed), counts)
    edge = (1 - about.confidence) / 2
    for name, share in value.items():
        low, high = np.quantile(drawn[name], [edge, 1 - edge])
        if low == high:  # a bootstrap of equal values has no width
            sure = wilson(share * len(outcomes), len(outcomes), about.confidence)
            low, high = sure.low, sure.high
        rows.append(
            replace(
                rows[0],
                metric=f"{name}_v3",
                value=share,
                low=float(low),
                high=float(high),
                questions={},
                question_se=None,
                rerun_se=None,
            )
        )
    return rows


def function_row(
    declared: Benchmark, problems: Sequence[Problem], trajectories: Sequence[GradedRollout], about: Slice
) -> FunctionCallNumbers:
    """Return accuracy per category and the weighted scores with and without known defects, for the summary."""
    outcomes = outcomes_of(trajectories, about.grader)
    bad = {problem for issue in declared.known_issues for problem in issue.problems}
    all_of_them = _by_category(problems, outcomes)
    sound = _by_category([problem for problem in problems if problem.id not in bad], outcomes)
    return FunctionCallNumbers(
        checkpoint=about.checkpoint,
        benchmark=about.benchmark,
        mode=declared.prompt.value,
        temperature=about.temperature,
        categories={
            name: CategoryScore(value=float(np.mean(values)), num_questions=len(values))
            for name, values in all_of_them.items()
        },
        v3=_weighted(all_of_them, overall),
        v3_without_known_issues=_weighted(sound, overall),
        v4_weights=_weighted(all_of_them, overall_v4),
    )


def _weighted(by_category: Mapping[str, list[float]], formula: Any) -> dict[str, float] | None:
    if set(by_category) != set(CATEGORIES):
        return None
    accuracy = {name: float(np.mean(values)) for name, values in by_category.items()}
    return formula(accuracy, {name: len(values) for name, values in by_category.items()})


def _by_category(problems: Sequence[Problem], outcomes: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return category -> mean outcome of each of its entries, in the order of the entries."""
    found: dict[str, list[float]] = {}
    for problem in problems:
        if problem.id in outcomes:
            found.setdefault(problem.family, []).append(float(np.mean(outcomes[problem.id])))
    return found


def _resampled(by_category: Mapping[str, list[float]], seed: int) -> dict[str, Any]:
    """Return category -> its accuracy in each draw of entries.

    The four kinds of conversation share their entries, so a complete set of them is drawn together.
    """
    rng = np.random.default_rng(seed)
    accuracy: dict[str, Any] = {}
    sizes = {len(by_category[name]) for name in MULTI_TURN}
    together = rng.integers(0, min(sizes), (DRAWS, min(sizes))) if len(sizes) == 1 else None
    for name, values in by_category.items():
        values_N = np.asarray(values)
        drawn = together if together is not None and name in MULTI_TURN else None
        if drawn is None:
            drawn = rng.integers(0, len(values_N), (DRAWS, len(values_N)))
        accuracy[name] = values_N[drawn].mean(axis=1)
    return accuracy
