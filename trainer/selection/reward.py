"""`reward_function`: the configured reward, a grader or a user's function.

`objective.reward: package.module:function` names a function (Problem, Rollout) -> Verdict. It runs in a separate
process (`trainer.selection.user_reward`); its failures never count against the model (public fault B38).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from config.objective import ObjectiveSection
from records.problem import Problem
from records.trajectory import Rollout
from records.verdict import Verdict, VerdictKind
from trainer.selection.user_reward import UserReward
from verifier.graders.grade import grade
from verifier.graders.policy import RL_POLICY, GradePolicy, GraderName

Reward = Callable[[Problem, Rollout], Verdict]


def grader_of(objective: ObjectiveSection) -> Reward:
    """The configured grader; it decides correctness for every kind of reward."""
    return _graded(replace(RL_POLICY, graders=(GraderName(objective.grader),)))


def reward_function(objective: ObjectiveSection) -> Reward:
    """The configured reward. Raises ConfigError when a named function cannot be found."""
    if objective.reward is None:
        return grader_of(objective)
    module, _, name = objective.reward.partition(":")
    if module == __name__ and name in BUILT_IN:
        return BUILT_IN[name]
    return UserReward(objective.reward, objective.reward_limit_s)


def even_ids(problem: Problem, rollout: Rollout) -> Verdict:
    """Correct when the sum of the sampled ids is even. Smoke runs use it to update weights; it teaches nothing.

    The parity of the length would not do: rollouts cut at the budget would all get the same reward.

    >>> even_ids(Problem(id="p", prompt="", answer=""), Rollout(run="", checkpoint="", benchmark="", problem="p",
    ...     sample=0, ids=[7, 3, 5], mask=[False, True, True])).verdict.value
    'correct'
    """
    total = sum(token for token, sampled in zip(rollout.ids, rollout.mask, strict=True) if sampled)
    kind = VerdictKind.WRONG if total % 2 else VerdictKind.CORRECT
    return Verdict(id=problem.id, verdict=kind, rule="even sum of sampled ids", grader="even_ids")


def coin(problem: Problem, rollout: Rollout) -> Verdict:
    """Correct or wrong by the parity of the rollout's seed: a reward without information, for a control arm.

    >>> coin(Problem(id="p", prompt="", answer=""), Rollout(run="", checkpoint="", benchmark="", problem="p",
    ...     sample=0, seed=4)).verdict.value
    'correct'
    """
    kind = VerdictKind.WRONG if rollout.seed % 2 else VerdictKind.CORRECT
    return Verdict(id=problem.id, verdict=kind, rule="parity of the seed", grader="coin")


BUILT_IN: dict[str, Reward] = {"even_ids": even_ids, "coin": coin}
"""Rewards of this module; pure and fast, so they run in this process."""


def shaped(reward: float, p_err: float, objective: ObjectiveSection, seed: int) -> float:
    """The reward after the configured experiments: flipped by a seeded draw, minus a share of the failed calls.

    Both settings are 0 in the paper's recipe. A flip turns a 0/1 reward into 1 - reward.

    >>> from config.resolve import resolve
    >>> shaped(1.0, 0.5, resolve().objective, 0)
    1.0
    >>> shaped(1.0, 0.5, resolve([], ["objective.penalty_weight=0.2"]).objective, 0)
    0.9
    >>> shaped(1.0, 0.0, resolve([], ["objective.reward_flip=1.0"]).objective, 0)
    0.0
    """
    if objective.reward_flip and random.Random(f"flip:{seed}").random() < objective.reward_flip:
        reward = 1.0 - reward
    return reward - objective.penalty_weight * p_err


def _graded(policy: GradePolicy) -> Reward:
    def reward(problem: Problem, rollout: Rollout) -> Verdict:
        (verdict,) = grade(problem, rollout, policy).values()
        return verdict

    return reward
