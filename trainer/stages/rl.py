"""One RL stage: the controller that owns cursor, rollouts, grading, RoC, updates and state.

Reads top to bottom as one step: problems -> 2G rollouts each -> verdicts -> RoC picks G -> advantages -> clipped
loss -> AdamW -> weights to the engine (paper sections 2.2 and 4.3). Everything random derives from (seed, step,
problem), so the state of a stage is weights, optimizer and step; a resumed stage repeats the lost steps bit for bit.

Not here: how tokens are made (engine), how a loss is computed (`trainer.update.grpo`), what a rollout is
(`trainer.rollout.loop`).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from config.model import StageSection
from config.objective import ObjectiveSection, RocSelection
from records.group import Group, grouped
from records.problem import Problem
from records.seeds import derive_seed
from records.stages import BY_NAME
from records.trajectory import GradedRollout, Rollout, SelectionReason, Trajectory
from trainer.metrics.alarms import alarms
from trainer.metrics.step_metrics import StepClock, group_metrics, is_rewarded, rollout_metrics
from trainer.problems.order import problems_of_step
from trainer.rollout.loop import RolloutClock
from trainer.rollout.sampler import Sampler
from trainer.rollout.task import Task
from trainer.selection.advantage import advantages
from trainer.selection.grading import Grading
from trainer.selection.group_selection import GroupSelection
from trainer.selection.repetition import p_repetition
from trainer.selection.reward import Reward
from trainer.selection.roc import Candidate, SelectionRule, pressure, select
from trainer.selection.roc_release import p_err_text, p_format_text
from trainer.update.grpo import GrpoTrainer, UpdateBatch, UpdateMetrics
from trainer.update.optimizer import lr_factor
from trainer.update.training_rows import Row, row_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What one step leaves for the journals."""

    metrics: dict[str, Any]
    clock: StepClock
    trajectories: list[Trajectory]
    rollout_clocks: list[RolloutClock]
    """One per trajectory, in the same order."""
    alarms: list[str]


@dataclass(slots=True, kw_only=True)
class RlStage:
    """Collaborators of one stage; `step` does one step."""

    stage: str
    section: StageSection
    objective: ObjectiveSection
    pool: Sequence[Problem]
    trainer: GrpoTrainer
    sampler: Sampler
    reward: Reward
    seed: int
    first_step: int
    """Steps of earlier stages."""
    grader: Reward | None = None
    """Says what is correct, for the metrics, where the reward says something else."""

    def step(self, step: int) -> StepOutcome:
        """Do the step with global number `step` and bring the new weights to the engine."""
        began = time.monotonic()
        stage_step = step - self.first_step
        # By the global step: counted anew, each stage would meet the problems of the one before, in the same order.
        problems = problems_of_step(self.pool, step, self.section.prompts_per_step, self.seed)
        rollouts, clocks = self._rollouts(problems, step)
        rolled = time.monotonic()
        groups = [self._grading.grade(group) for group in grouped(problems, rollouts)]
        graded = time.monotonic()
        selections = [self._select(group, step) for group in groups]
        rows = self._rows(selections)
        updates = self._update(rows, stage_step)
        updated = time.monotonic()
        self.sampler.take_weights(self.trainer, version=step)
        synced = time.monotonic()
        trajectories = [one for selection in selections for one in selection.trajectories]
        metrics = rollout_metrics(trajectories) | group_metrics(group.rollouts for group in groups)
        rule, values = selection_rule(self.objective), [row.advantage for row in rows]
        metrics |= selection_metrics(selections, rule, values) | update_metrics(updates)
        num_sampled, num_trained = metrics["num_sampled_tokens"], metrics["num_trained_tokens"]
        clock = StepClock(
            step=step,
            stage=self.stage,
            rollout_s=rolled - began,
            engine_s=self.sampler.engine_s,
            engine_busy_frac=self.sampler.engine_s / max(rolled - began, 1e-9),
            tool_wait_s=self.sampler.wait_s,
            tool_cpu_s=sum(clock.cpu_s for clock in clocks),
            tool_queue_wait_s=sum(clock.queue_s for clock in clocks) / max(metrics["num_tool_calls"], 1),
            num_near_limit_calls=sum(clock.num_near_limit for clock in clocks),
            grade_s=graded - rolled,
            update_s=updated - graded,
            sync_s=synced - updated,
            save_s=0.0,
            step_s=time.monotonic() - began,
            sampled_tokens_per_s=num_sampled / max(rolled - began, 1e-9),
            trained_tokens_per_s=num_trained / max(updated - graded, 1e-9),
        )
        names = {"step": step, "stage": self.stage, "policy_version": step - 1}
        return StepOutcome(
            metrics=metrics | names,
            clock=clock,
            trajectories=trajectories,
            rollout_clocks=clocks,
            alarms=alarms(metrics),
        )

    @property
    def _grading(self) -> Grading:
        return Grading(objective=self.objective, reward=self.reward, grader=self.grader)

    def _rollouts(self, problems: Sequence[Problem], step: int) -> tuple[list[Rollout], list[RolloutClock]]:
        """2G rollouts of each problem and their clocks, both in order of the rollouts' keys."""
        num = self.objective.group_size * self.objective.roc.oversample
        tasks = [Task(problem=problem, sample=i, step=step) for problem in problems for i in range(num)]
        done = sorted(self.sampler.run(tasks, policy_version=step - 1), key=lambda pair: pair[0].key)
        return [rollout for rollout, _ in done], [clock for _, clock in done]

    def _select(self, group: Group[GradedRollout], step: int) -> GroupSelection:
        """RoC of one group, by a random stream of its own."""
        rule = selection_rule(self.objective)
        candidates = [self._candidate(rollout, rule) for rollout in group.rollouts]
        stream = random.Random(derive_seed(self.seed, "roc", step, group.problem.id))
        selection = select(candidates, self.objective.group_size, rule, stream)
        return GroupSelection(group=group, candidates=candidates, selection=selection)

    def _rows(self, selections: Sequence[GroupSelection]) -> list[Row]:
        """The kept rollouts with their advantages."""
        kept = [rollout for selection in selections for rollout in selection.kept]
        if self.objective.advantage == "correct_only":
            values = [float(is_rewarded(rollout)) for rollout in kept]
        else:
            values = advantages([_reward(rollout) for rollout in kept], [rollout.problem for rollout in kept])
        return [row_of(rollout, value) for rollout, value in zip(kept, values, strict=True)]

    def _candidate(self, rollout: GradedRollout, rule: SelectionRule) -> Candidate:
        """What selection sees of a rollout. The release reads its penalties off the decoded text."""
        err, form = rollout.p_err, rollout.p_format
        if rule.selection is RocSelection.RELEASE:
            response = self.sampler.codec.decode(rollout.ids[rollout.prompt_len :])
            err, form = p_err_text(response), p_format_text(response)
        return Candidate(
            index=rollout.sample,
            reward=rollout.reward,
            is_overlong=self._grading.is_overlong(rollout),
            p_err=err,
            p_format=form,
            p_repetition=p_repetition(rollout.ids, rollout.mask) if rule.use_repetition else 0.0,
        )

    def _update(self, rows: Sequence[Row], stage_step: int) -> list[UpdateMetrics]:
        """`updates_per_step` updates over whole groups; a step without rows makes none."""
        factor = lr_factor(stage_step, self.section.steps, self._warmup(), "constant")
        lr = self.objective.optimizer.lr * factor
        if not rows:
            return []
        num = self.objective.updates_per_step
        old = self.trainer.logprobs(rows) if num > 1 else None
        reference = self.trainer.reference_logprobs(rows) if self.objective.kl_weight else None
        sampled_rows = (
            self.section.prompts_per_step * self.objective.group_size * self.objective.roc.oversample
        )
        return [
            self.trainer.update(
                UpdateBatch(
                    rows=[rows[i] for i in part],
                    lr=lr,
                    old_logprobs=[old[i] for i in part] if old is not None else None,
                    reference_logprobs=[reference[i] for i in part] if reference is not None else None,
                    mini_batch_rows=sampled_rows // num,
                )
            )
            for part in split_by_group(rows, num)
        ]

    def _warmup(self) -> int:
        """Warm-up starts anew only where the optimizer does."""
        starts_anew = BY_NAME[self.stage].new_optimizer or self.first_step == 0
        return self.objective.optimizer.warmup_steps if starts_anew else 0


def selection_rule(objective: ObjectiveSection) -> SelectionRule:
    """The configured RoC rule."""
    roc = objective.roc
    return SelectionRule(
        selection=roc.selection,
        epsilon=roc.epsilon,
        use_p_err=roc.use_p_err,
        use_p_format=roc.use_p_format,
        use_repetition=roc.use_repetition,
        transform=roc.transform,
    )


def split_by_group(rows: Sequence[Row], num: int) -> list[list[int]]:
    """Indices of rows in `num` parts of whole groups, groups dealt in turn; empty parts are left out.

    >>> def row(group): return Row(ids=[0, 1], mask=[False, True], logprob=[0.0, -1.0], advantage=0.0, group=group)
    >>> split_by_group([row("a"), row("a"), row("b"), row("c")], 2)
    [[0, 1, 3], [2]]
    """
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.group, []).append(index)
    parts: list[list[int]] = [[] for _ in range(num)]
    for number, members in enumerate(groups.values()):
        parts[number % num] += members
    return [part for part in parts if part]


def selection_metrics(
    groups: Sequence[GroupSelection],
    rule: SelectionRule,
    advantages_N: Sequence[float],
) -> dict[str, Any]:
    """Rollouts by reason, and how hard RoC pulled on the positives (means over positives, pooled over groups)."""
    counts = {f"num_{reason.value}": 0 for reason in SelectionReason}
    before = after = 0.0
    num_before = num_after = 0
    for group in groups:
        selection = group.selection
        for reason in selection.reasons:
            counts[f"num_{reason.value}"] += 1
        if not selection.kept:
            continue
        pull = pressure(group.candidates, selection, rule)
        before += pull.p_total_before * pull.num_before if pull.num_before else 0.0
        after += pull.p_total_after * pull.num_after if pull.num_after else 0.0
        num_before, num_after = num_before + pull.num_before, num_after + pull.num_after
    kept = sum(len(group.selection.kept) for group in groups)
    total = sum(len(group.candidates) for group in groups)
    metrics: dict[str, Any] = counts | {"num_kept": kept, "num_dropped": total - kept}
    metrics["no_reward_frac"] = counts[f"num_{SelectionReason.NO_REWARD.value}"] / max(total, 1)
    if num_before:
        metrics["p_total_pos_before"] = before / num_before
    if num_after:
        metrics["p_total_pos_after"] = after / num_after
    if advantages_N:
        mean = math.fsum(advantages_N) / len(advantages_N)
        metrics["advantage_mean"] = mean
        metrics["advantage_std"] = math.sqrt(
            math.fsum((a - mean) ** 2 for a in advantages_N) / len(advantages_N)
        )
        metrics["advantage_max"] = max(map(abs, advantages_N))
    return metrics


def update_metrics(updates: Sequence[UpdateMetrics]) -> dict[str, Any]:
    """Means over the updates of a step; clip shares and mismatch pooled over tokens."""
    tokens = sum(update.num_tokens for update in updates)
    metrics: dict[str, Any] = {"num_updates": len(updates), "num_trained_tokens": tokens}
    if not updates or not tokens:
        return metrics
    first = updates[0].mismatch
    return metrics | {
        "loss": sum(u.loss for u in updates) / len(updates),
        "grad_norm": sum(u.grad_norm for u in updates) / len(updates),
        "lr": updates[0].lr,
        "entropy_mean": sum(u.entropy_mean * u.num_tokens for u in updates) / tokens,
        "clip_low_frac": sum(u.sums.num_clipped_low for u in updates) / tokens,
        "clip_high_frac": sum(u.sums.num_clipped_high for u in updates) / tokens,
        "ratio_mean": sum(u.sums.sum_ratio for u in updates) / tokens,
        "mismatch_abs_mean": first.per_token(first.sum_abs_dlogp),
        "mismatch_abs_max": first.max_abs_dlogp,
        "mismatch_k3": first.per_token(first.sum_k3),
        "padding_frac": sum(u.padding_frac for u in updates) / len(updates),
        "shared_frac": sum(u.shared_frac for u in updates) / len(updates),
    }


def _reward(rollout: GradedRollout) -> float:
    assert rollout.reward is not None
    return rollout.reward


def note(metrics: dict[str, Any]) -> str:
    """The words of the progress line."""
    parts = [f"{short} {metrics[name]:.3f}" for name, short in _SHOWN if name in metrics]
    return "  ".join(parts)


_SHOWN = (
    ("accuracy", "acc"),
    ("tool_error_frac_correct", "err+"),
    ("response_len_mean", "len"),
    ("truncated_frac", "cut"),
    ("grad_norm", "norm"),
)
