"""`Grading`: verdict, reward and penalties of a group's rollouts (paper section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from config.objective import ObjectiveSection
from records.group import Group
from records.problem import Problem
from records.trajectory import GradedRollout, Rollout, StopReason
from records.verdict import reward_of
from trainer.selection.reward import Reward, shaped
from trainer.selection.roc import p_err, p_format
from trainer.update.training_rows import unusable

BUDGET_ENDS = frozenset({StopReason.LENGTH, StopReason.CONTEXT})
"""Both ends of the response budget: within a turn, and before a tool response that does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """The configured reward, and the grader that decides what is correct where the reward is something else."""

    objective: ObjectiveSection
    reward: Reward
    grader: Reward | None = None

    def grade(self, group: Group[Rollout]) -> Group[GradedRollout]:
        """Grade every rollout of a group; a rollout that the infrastructure lost keeps reward None (B38)."""
        graded = tuple(self._grade(group.problem, rollout) for rollout in group.rollouts)
        return Group(problem=group.problem, rollouts=graded)

    def is_overlong(self, rollout: Rollout) -> bool:
        """Whether the rollout is filtered for its length (paper section 4.3.1)."""
        ended = rollout.stop in BUDGET_ENDS and unusable(rollout) is None
        return ended and self.objective.overlong == "filter"

    def _grade(self, problem: Problem, rollout: Rollout) -> GradedRollout:
        err, form = p_err(rollout.turns), p_format(rollout.turns)
        if unusable(rollout) is not None:
            return rollout.graded(reward=None, p_err=err, p_format=form)
        verdict = self.reward(problem, rollout)
        judged = verdict if self.grader is None else self.grader(problem, rollout)
        reward = None if self.is_overlong(rollout) else reward_of(verdict.verdict)
        return rollout.graded(
            reward=None if reward is None else shaped(reward, err, self.objective, rollout.seed),
            p_err=err,
            p_format=form,
            verdicts={self.objective.grader: judged},
        )
