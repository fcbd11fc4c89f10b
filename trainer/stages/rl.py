"""`RlStage.step`: one step of GRPO-RoC (paper sections 2.2 and 4.3), in the order of the paper.

All randomness derives from (seed, step, problem), so the state of a stage is weights, optimizer and step number. A
resumed stage repeats the lost steps bit for bit.

Engines make tokens, `trainer.rollout.loop` makes rollouts, `trainer.update.grpo` computes the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from random import Random

from config.model import StageSection
from config.objective import ObjectiveSection
from records.group import Group, grouped
from records.problem import Problem
from records.seeds import derive_seed
from records.stages import BY_NAME
from records.trajectory import GradedRollout, Trajectory
from trainer.metrics.alarms import alarms
from trainer.metrics.selection_metrics import selection_metrics
from trainer.metrics.step_clock import Laps, StepClock
from trainer.metrics.step_metrics import group_metrics, rollout_metrics
from trainer.metrics.update_metrics import update_metrics
from trainer.problems.order import problems_of_step
from trainer.rollout.episode import RolloutClock
from trainer.rollout.grading_thread import grading_thread
from trainer.rollout.sampler import Sampler
from trainer.rollout.task import Task
from trainer.selection.advantage import advantages
from trainer.selection.grading import Grading
from trainer.selection.group_selection import GroupSelection, select_group
from trainer.update.grpo import GrpoTrainer, UpdateBatch, UpdateMetrics
from trainer.update.optimizer import lr_factor
from trainer.update.training_rows import Row, row_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Records that one step leaves for the journals."""

    step: int
    stage: str
    metrics: dict[str, float]
    clock: StepClock
    trajectories: list[Trajectory]
    rollout_clocks: list[RolloutClock]
    """One per trajectory, in the same order."""
    alarms: list[str]

    @property
    def journal_row(self) -> dict[str, float | str]:
        """Line of the metrics journal."""
        return self.metrics | {"step": self.step, "stage": self.stage, "policy_version": self.step - 1}


@dataclass(slots=True, kw_only=True)
class RlStage:
    """Collaborators of one stage; `step` makes one step."""

    stage: str
    section: StageSection
    objective: ObjectiveSection
    pool: Sequence[Problem]
    trainer: GrpoTrainer
    sampler: Sampler
    grading: Grading
    seed: int
    first_step: int
    """Steps of earlier stages."""

    def step(self, step: int) -> StepOutcome:
        """Make the step with global number `step` and send the new weights to the engine."""
        laps = Laps()
        # The global step: a count per stage would give every stage the same problems in the same order.
        problems = problems_of_step(self.pool, step, self.objective.prompts_per_step, self.seed)
        with grading_thread() as grader:
            with laps.lap("rollout"):
                pending, clocks = self._rollouts(problems, step, grader)
            with laps.lap("grade"):
                groups = grouped(problems, [graded.result() for graded in pending])
        with laps.lap("update"):
            selections = [self._select(group, step) for group in groups]
            kept = [rollout for selection in selections for rollout in selection.kept]
            advantages_N = self._advantages(kept)
            updates = self._update(list(map(row_of, kept, advantages_N)), step)
        with laps.lap("sync"):
            self.sampler.take_weights(self.trainer, version=step)
        return self._outcome(step, selections, updates, laps, clocks)

    def _rollouts(
        self, problems: Sequence[Problem], step: int, grader: Executor
    ) -> tuple[list[Future[GradedRollout]], list[RolloutClock]]:
        """2G rollouts of each problem, graded as they end, and their clocks; both in order of the rollouts' keys."""
        num = self.objective.group_size * self.objective.roc.oversample
        tasks = [Task(problem=problem, sample=i, step=step) for problem in problems for i in range(num)]
        by_id = {problem.id: problem for problem in problems}
        done = [
            (
                rollout.key,
                grader.submit(self.grading.grade, by_id[rollout.problem], rollout, self.objective),
                clock,
            )
            for rollout, clock in self.sampler.run(tasks, policy_version=step - 1)
        ]
        done.sort(key=lambda one: one[0])
        return [graded for _, graded, _ in done], [clock for _, _, clock in done]

    def _select(self, group: Group[GradedRollout], step: int) -> GroupSelection:
        """Pick G of a group's 2G rollouts, by a random stream of its own."""
        stream = Random(derive_seed(self.seed, "roc", step, group.problem.id))
        return select_group(group, self.objective, self.sampler.codec, stream)

    def _advantages(self, kept: Sequence[GradedRollout]) -> list[float]:
        """One advantage per kept rollout, over the kept rollouts of its group."""
        return advantages([_reward(rollout) for rollout in kept], [rollout.problem for rollout in kept])

    def _update(self, rows: Sequence[Row], step: int) -> list[UpdateMetrics]:
        """Make `updates_per_step` updates over whole groups; a step without rows makes none."""
        factor = lr_factor(step - self.first_step, self.section.steps, self._warmup(), "constant")
        lr = self.objective.optimizer.lr * factor
        if not rows:
            return []
        num = self.objective.updates_per_step
        old = self.trainer.logprobs(rows) if num > 1 else None
        reference = self.trainer.reference_logprobs(rows) if self.objective.kl_weight else None
        sampled_rows = (
            self.objective.prompts_per_step * self.objective.group_size * self.objective.roc.oversample
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
        """Warm-up starts again only if the optimizer does."""
        starts_anew = BY_NAME[self.stage].new_optimizer or self.first_step == 0
        return self.objective.optimizer.warmup_steps if starts_anew else 0

    def _outcome(
        self,
        step: int,
        selections: Sequence[GroupSelection],
        updates: Sequence[UpdateMetrics],
        laps: Laps,
        clocks: list[RolloutClock],
    ) -> StepOutcome:
        trajectories = [trajectory for selection in selections for trajectory in selection.trajectories]
        metrics = (
            rollout_metrics(trajectories)
            | group_metrics(selection.group.rollouts for selection in selections)
            | selection_metrics(selections, self.objective.roc)
            | update_metrics(updates)
        )
        clock = StepClock.of(
            step,
            self.stage,
            laps,
            clocks,
            metrics,
            engine_s=self.sampler.engine_s,
            tool_wait_s=self.sampler.wait_s,
        )
        return StepOutcome(
            step=step,
            stage=self.stage,
            metrics=metrics,
            clock=clock,
            trajectories=trajectories,
            rollout_clocks=clocks,
            alarms=alarms(metrics),
        )


def _reward(rollout: GradedRollout) -> float:
    assert rollout.reward is not None
    return rollout.reward


def split_by_group(rows: Sequence[Row], num: int) -> list[list[int]]:
    """Indices of rows in `num` parts of whole groups, groups assigned in turn; empty parts are left out.

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
