"""Where a reward comes from, and that nothing a reward does wrong becomes a score."""

from __future__ import annotations

from typing import Any

import pytest

from config.model import ObjectiveSection
from config.resolve import ConfigError, resolve
from trainer.reward import reward_function
from trainer.types import CallKind, Problem, StopReason, Trajectory, Turn
from verifier.verdict import Verdict, VerdictKind

PROBLEM = Problem(id="p", prompt="", answer="4")
NOT_CALLABLE = 3


def objective(**changes: Any) -> ObjectiveSection:
    return resolve().objective.model_copy(update=changes)


def a_rollout(text: str, stop: StopReason = StopReason.ANSWER) -> Trajectory:
    turn = Turn(text=text, start=1, end=2, call=CallKind.NONE)
    return Trajectory(
        run="r",
        checkpoint="c",
        benchmark="rl1",
        problem="p",
        sample=0,
        mask=[False, True],
        turns=[turn],
        stop=stop,
    )


def by_answer(problem: Problem, trajectory: Trajectory) -> Verdict:
    kind = VerdictKind.CORRECT if problem.answer in trajectory.turns[-1].text else VerdictKind.WRONG
    return Verdict(id=problem.id, verdict=kind)


def a_number(problem: Problem, trajectory: Trajectory) -> float:
    return 1.0


def raising(problem: Problem, trajectory: Trajectory) -> Verdict:
    raise ConnectionError("no judge " * 100)


@pytest.mark.parametrize("grader", ["strict", "rstar_compat"])
def test_without_a_function_of_ones_own_the_configured_grader_decides(grader: str) -> None:
    reward = reward_function(objective(grader=grader))
    boxed = reward(PROBLEM, a_rollout("</reason><answer>\\boxed{4}</answer>"))
    assert (boxed.verdict, boxed.grader) == (VerdictKind.CORRECT, grader)
    assert reward(PROBLEM, a_rollout("</reason><answer>\\boxed{5}</answer>")).verdict is VerdictKind.WRONG


def test_a_response_cut_at_the_budget_earns_nothing_in_training() -> None:
    """Paper section 2.2.1."""
    cut = a_rollout("</reason><answer>\\boxed{4}</answer>", StopReason.LENGTH)
    assert reward_function(objective())(PROBLEM, cut).verdict is VerdictKind.NO_ANSWER


def test_a_function_of_ones_own_is_found_by_name() -> None:
    reward = reward_function(objective(reward=f"{__name__}:by_answer"))
    assert reward(PROBLEM, a_rollout("4")).verdict is VerdictKind.CORRECT
    assert reward(PROBLEM, a_rollout("5")).verdict is VerdictKind.WRONG


@pytest.mark.parametrize(("name", "told"), [("raising", "ConnectionError"), ("a_number", "returned float")])
def test_what_a_reward_does_wrong_is_our_failure(name: str, told: str) -> None:
    verdict = reward_function(objective(reward=f"{__name__}:{name}"))(PROBLEM, a_rollout("4"))
    assert verdict.verdict is VerdictKind.INFRA_FAILED
    assert told in verdict.rule
    assert len(verdict.rule) <= 200


@pytest.mark.parametrize("name", ["no_such_module:f", f"{__name__}:absent", f"{__name__}:NOT_CALLABLE"])
def test_a_reward_that_cannot_be_found_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match=r"objective\.reward = "):
        reward_function(objective(reward=name))
