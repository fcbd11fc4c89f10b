"""`Grading`: verdict, reward and penalties of a rollout (paper section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from config.objective import ObjectiveSection
from records.problem import Problem
from records.trajectory import GradedRollout, Rollout, StopReason
from records.verdict import reward_of
from trainer.selection.reward import Reward, grader_of, reward_function, shaped
from trainer.selection.roc import p_err, p_format
from trainer.update.training_rows import unusable

BUDGET_ENDS = frozenset({StopReason.LENGTH, StopReason.CONTEXT})
"""Both ends of the response budget: within a turn, and before a tool response that does not fit."""


def is_overlong(rollout: Rollout, objective: ObjectiveSection) -> bool:
    """Whether the configuration filters the rollout for its length (paper section 4.3.1)."""
    ended = rollout.stop in BUDGET_ENDS and unusable(rollout) is None
    return ended and objective.overlong == "filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """Verdicts and rewards of rollouts under the configured reward and grader."""

    reward: Reward
    grader: Reward | None = None
    """Decides correctness for the metrics if the reward is another function."""

    def grade(self, problem: Problem, rollout: Rollout, objective: ObjectiveSection) -> GradedRollout:
        """Grade a rollout; one lost by the infrastructure keeps reward None (B38)."""
        err, form = p_err(rollout.turns), p_format(rollout.turns)
        if unusable(rollout) is not None:
            return rollout.graded(reward=None, p_err=err, p_format=form)
        verdict = self.reward(problem, rollout)
        judged = verdict if self.grader is None else self.grader(problem, rollout)
        reward = None if is_overlong(rollout, objective) else reward_of(verdict.verdict)
        return rollout.graded(
            reward=None if reward is None else shaped(reward, err, objective, rollout.seed),
            p_err=err,
            p_format=form,
            verdicts={objective.grader: judged},
        )


def grading_of(objective: ObjectiveSection) -> Grading:
    """The configured grading. Raises ConfigError when a named reward function cannot be found."""
    grader = None if objective.reward is None else grader_of(objective)
    return Grading(reward=reward_function(objective), grader=grader)
