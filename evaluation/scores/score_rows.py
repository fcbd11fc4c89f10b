"""`score`, `consensus`, `control_scores`: score rows with intervals from graded samples."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evaluation.scores.votes import Vote, equality, grouped, vote_of
from records.evaluation import ControlName, GraderDisagreement, Score, ScoreGrader
from records.statistics import (
    avg_at_k,
    cons_at_k,
    pass_at_k_by_question,
    pass_hat_k_by_question,
    question_se,
    rerun_se,
    score_interval,
)
from records.verdict import VerdictKind, reward_of
from verifier.graders.grade import grade, grade_answer
from verifier.graders.policy import EVAL_GRADERS, GradePolicy, GraderName

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import GradedRollout
    from verifier.benchmarks import KnownIssue


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The subject of a score: checkpoint, benchmark, control and settings."""

    checkpoint: str
    benchmark: str
    temperature: float
    control: ControlName = "none"
    grader: ScoreGrader = "strict"
    seed: int = 0
    confidence: float = 0.95


def outcomes_of(trajectories: Sequence[GradedRollout], grader: str) -> dict[str, list[float]]:
    """Return question -> 0/1 per sample. Lost samples are left out, not counted as wrong."""
    outcomes: dict[str, list[float]] = {}
    for trajectory in trajectories:
        reward = reward_of(trajectory.verdicts[grader].verdict)
        if reward is not None:
            outcomes.setdefault(trajectory.problem, []).append(reward)
    return outcomes


def score(outcomes: Mapping[str, list[float]], about: Slice) -> list[Score]:
    """Return avg@k with its interval; with several samples per question, also pass@k and pass^k."""
    if not outcomes:
        return []
    fewest = min(len(values) for values in outcomes.values())
    interval = score_interval(outcomes, seed=about.seed, confidence=about.confidence)
    first = Score(
        checkpoint=about.checkpoint,
        benchmark=about.benchmark,
        metric=f"avg@{fewest}",
        temperature=about.temperature,
        control=about.control,
        value=avg_at_k(outcomes),
        low=interval.low,
        high=interval.high,
        num_questions=len(outcomes),
        num_samples=sum(len(values) for values in outcomes.values()),
        grader=about.grader,
        questions={question: list(values) for question, values in sorted(outcomes.items())},
        question_se=question_se(outcomes) if len(outcomes) > 1 else None,
        rerun_se=rerun_se(outcomes) if fewest > 1 else None,
    )
    if fewest == 1:
        return [first]
    return [
        first,
        _of_questions(first, f"pass@{fewest}", pass_at_k_by_question(outcomes, fewest), about),
        _of_questions(first, f"pass^{fewest}", pass_hat_k_by_question(outcomes, fewest), about),
    ]


def consensus(
    trajectories: Sequence[GradedRollout],
    about: Slice,
    vote: Callable[[GradedRollout], str | None] | None = None,
    policy: GradePolicy | None = None,
) -> list[Score]:
    """Return cons@k: whether the answer of most samples is right. Answers that tie for the lead share the credit.

    Args:
        trajectories: graded samples; the result is empty unless every question has several.
        about: the subject of the score.
        vote: the answer of a sample; default: the answer that the grader found. An unreadable answer has no vote.
        policy: the policy that decides which answers are equal.
    """
    answer_of = vote or (lambda trajectory: trajectory.verdicts[about.grader].extracted)
    policy = policy or GradePolicy()
    votes: dict[str, list[Vote | None]] = {}
    for trajectory in trajectories:
        verdict = trajectory.verdicts[about.grader]
        if reward_of(verdict.verdict) is not None:
            votes.setdefault(trajectory.problem, []).append(vote_of(verdict, answer_of(trajectory), policy))
    outcomes = outcomes_of(trajectories, about.grader)
    if not outcomes or min(map(len, outcomes.values())) < 2:
        return []
    equal = equality(policy)
    shares = {
        question: cons_at_k(grouped(votes[question], equal), values) for question, values in outcomes.items()
    }
    first = score(outcomes, about)[0]
    return [_of_questions(first, first.metric.replace("avg", "cons"), shares, about)]


def without_known_issues(
    outcomes: Mapping[str, list[float]], issues: Sequence[KnownIssue], about: Slice
) -> list[Score]:
    """Return the average without rows with known defects; empty when the plan includes none of them."""
    bad = {problem for issue in issues for problem in issue.problems}
    kept = {question: values for question, values in outcomes.items() if question not in bad}
    if len(kept) == len(outcomes) or not kept:
        return []
    first = score(kept, about)[0]
    return [replace(first, metric=first.metric.replace("avg", "without_known_issues"), questions={})]


def _of_questions(first: Score, metric: str, by_question: Mapping[str, float], about: Slice) -> Score:
    """Return the row of a number per question, such as pass@k, in place of the average."""
    spread = score_interval(
        {question: [value] for question, value in by_question.items()},
        seed=about.seed,
        confidence=about.confidence,
    )
    return replace(
        first,
        metric=metric,
        value=sum(by_question.values()) / len(by_question),
        low=spread.low,
        high=spread.high,
        questions={},
        question_se=None,
        rerun_se=None,
    )


def chance(problems: Sequence[Problem]) -> float:
    """Return the share of questions that the best constant answer of each family gets right.

    >>> from records.problem import Problem
    >>> answers = {"a": "1", "b": "1", "c": "2", "d": "3"}
    >>> chance([Problem(id=i, prompt="", answer=a, family="f") for i, a in answers.items()])
    0.5
    """
    families: dict[str, Counter[str]] = {}
    for problem in problems:
        families.setdefault(problem.family, Counter())[problem.answer] += 1
    return sum(answers.most_common(1)[0][1] for answers in families.values()) / len(problems)


def shuffled_golds(problems: Sequence[Problem], seed: int) -> dict[str, Problem]:
    """Return each problem with the gold of another in its family: a score above chance reveals guessing or leakage.

    A problem that is alone in its family has no other gold and is left out.
    """
    families: dict[str, list[Problem]] = {}
    for problem in sorted(problems, key=lambda p: p.id):
        families.setdefault(problem.family, []).append(problem)
    shuffled: dict[str, Problem] = {}
    for family, members in families.items():
        if len(members) == 1:
            continue
        order = list(range(len(members)))
        random.Random(f"{seed}:{family}").shuffle(order)
        # A cycle through a random order moves every gold.
        for place, index in enumerate(order):
            other = members[order[(place + 1) % len(order)]]
            shuffled[members[index].id] = replace(members[index], answer=other.answer)
    return shuffled


def control_scores(
    problems: Sequence[Problem], trajectories: Sequence[GradedRollout], policy: GradePolicy, about: Slice
) -> list[Score]:
    """Return controls without sampling: golds permuted within a family, a mute model, the best constant answer."""
    by_id = shuffled_golds(problems, about.seed)
    strict = replace(policy, graders=(GraderName.STRICT,))
    permuted: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if trajectory.problem not in by_id:
            continue
        (verdict,) = grade(by_id[trajectory.problem], trajectory, strict).values()
        reward = reward_of(verdict.verdict)
        if reward is not None:
            permuted.setdefault(trajectory.problem, []).append(reward)
    mute: dict[str, list[float]] = {}
    for problem in problems:
        silent = reward_of(grade_answer(problem.answer, "", strict, id=problem.id).verdict)
        if silent is not None:
            mute[problem.id] = [silent]
    rows = score(permuted, replace(about, control="shuffled_golds"))[:1] + score(
        mute, replace(about, control="mute")
    )
    constant = chance(problems)
    template = rows[0]
    rows.append(
        replace(
            template,
            metric="chance",
            control="none",
            value=constant,
            low=constant,
            high=constant,
            num_questions=len(problems),
            num_samples=len(problems),
            questions={},
            question_se=None,
            rerun_se=None,
        )
    )
    return rows


def disagreements(trajectories: Sequence[GradedRollout]) -> list[GraderDisagreement]:
    """Return samples on which the two graders differ; samples that a grader lost are left out."""
    strict, compat = (grader.value for grader in EVAL_GRADERS)
    return [
        GraderDisagreement(
            benchmark=t.benchmark,
            problem=t.problem,
            sample=t.sample,
            strict=t.verdicts[strict].verdict.value,
            rstar_compat=t.verdicts[compat].verdict.value,
            extracted=t.verdicts[strict].extracted,
        )
        for t in trajectories
        if compat in t.verdicts
        and VerdictKind.INFRA_FAILED not in (t.verdicts[strict].verdict, t.verdicts[compat].verdict)
        and (t.verdicts[strict].verdict is VerdictKind.CORRECT)
        != (t.verdicts[compat].verdict is VerdictKind.CORRECT)
    ]
