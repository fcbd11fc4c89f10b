"""`instruction_scores`: IFEval's four numbers as score rows: prompts and instructions, strict and loose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evaluation.scores.score_rows import Slice, outcomes_of, score
from records.evaluation import InstructionNumbers, Score, ScoreGrader
from records.statistics import FEW_UNITS, resample_weights, wilson
from verifier.ifeval.checks import followed, four_numbers

if TYPE_CHECKING:
    from records.trajectory import GradedRollout

GRADERS: tuple[ScoreGrader, ...] = ("strict", "loose")
RESAMPLES = 2000


def instruction_scores(trajectories: Sequence[GradedRollout], about: Slice) -> list[Score]:
    """Return avg@k over prompts (all instructions followed) and instructions@k (share of instructions), per grader.

    Instructions of one prompt are correlated, so the interval of instructions@k draws prompts.
    """
    rows = []
    for grader in GRADERS:
        here = replace(about, grader=grader)
        rows += score(outcomes_of(trajectories, grader), here)
        rows += _instructions(trajectories, here, rows[-1] if rows else None)
    return rows


def _instructions(trajectories: Sequence[GradedRollout], about: Slice, like: Score | None) -> list[Score]:
    by_problem: dict[str, list[int]] = {}
    for trajectory in trajectories:
        flags = followed([trajectory.verdicts[about.grader]])
        if flags:
            counts = by_problem.setdefault(trajectory.problem, [0, 0])
            counts[0] += sum(flags)
            counts[1] += len(flags)
    if like is None or not by_problem:
        return []
    counts_P2 = np.array([by_problem[problem] for problem in sorted(by_problem)], float)
    weights = resample_weights(len(counts_P2), seed=about.seed, resamples=RESAMPLES)
    drawn = weights @ counts_P2
    shares = drawn[:, 0] / np.maximum(drawn[:, 1], 1)
    edge = (1 - about.confidence) / 2
    low, high = np.quantile(shares, [edge, 1 - edge])
    right, all_of_them = counts_P2.sum(axis=0)
    share = float(right / max(all_of_them, 1))
    if len(counts_P2) < FEW_UNITS or low == high:  # a bootstrap of equal values has no width
        sure = wilson(share * len(counts_P2), len(counts_P2), about.confidence)
        low, high = sure.low, sure.high
    return [
        replace(
            like,
            metric="instructions@" + like.metric.partition("@")[2],
            value=share,
            low=float(low),
            high=float(high),
            questions={},
            question_se=None,
            rerun_se=None,
        )
    ]


def instruction_row(trajectories: Sequence[GradedRollout], about: Slice) -> InstructionNumbers:
    """Return the four numbers of one evaluation, for the summary."""
    return InstructionNumbers(
        checkpoint=about.checkpoint,
        benchmark=about.benchmark,
        temperature=about.temperature,
        num_samples=len([t for t in trajectories if t.reward is not None]),
        **four_numbers([trajectory.verdicts for trajectory in trajectories]),
    )
