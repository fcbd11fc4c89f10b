"""`RlStage` for tests: with scripted rollouts and a fake trainer, or with a real engine and trainer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from config.commands import CHAT
from config.model import StageSection
from config.objective import ObjectiveSection
from config.resolve import resolve
from records.problem import Problem
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from tests.trainer.fakes import ScriptedTool
from tests.trainer.tiny_checkpoint import tiny_config
from trainer.engines.local import LocalEngine
from trainer.rollout.chat import chat_format
from trainer.rollout.episode import RolloutClock
from trainer.rollout.sampler import Sampler, rl_settings
from trainer.rollout.task import Task
from trainer.rollout.tokenizer import FolderCodec
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.selection.grading import Grading
from trainer.selection.reward import Reward, even_ids, reward_function
from trainer.stages.rl import RlStage
from trainer.update.grpo import GrpoTrainer, UpdateBatch, UpdateMetrics
from trainer.update.loss import TokenSums
from trainer.update.training_rows import Row

POOL = [Problem(id=f"p{i}", prompt=f"What is {i} + {i}?", answer=str(2 * i)) for i in range(7)]


def objective(**changes: Any) -> ObjectiveSection:
    return resolve().objective.model_copy(update=changes)


class FakeTrainer:
    """Records the batches that it receives."""

    def __init__(self) -> None:
        self.batches: list[UpdateBatch] = []

    def update(self, batch: UpdateBatch) -> UpdateMetrics:
        self.batches.append(batch)
        return UpdateMetrics(
            loss=0.0, grad_norm=1.0, lr=batch.lr, num_rows=len(batch.rows), num_tokens=1, padding_frac=0.0,
            sums=TokenSums(), mismatch=TokenSums(), entropy_mean=0.0,
        )  # fmt: skip

    def logprobs(self, rows: Sequence[Row]) -> list[list[float]]:
        return [[-1.0] * sum(row.mask) for row in rows]


class FakeSampler:
    """Returns prepared trajectories."""

    engine_s = wait_s = 0.0
    codec: Any = None

    def __init__(self, trajectories: list[Trajectory]) -> None:
        self.trajectories = trajectories
        self.versions: list[int] = []

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Trajectory, RolloutClock]]:
        clock = RolloutClock()
        expected = {(task.problem.id, task.sample) for task in tasks}
        for trajectory in self.trajectories:
            if (trajectory.problem, trajectory.sample) in expected:
                yield trajectory, clock

    def take_weights(self, trainer: object, version: int) -> None:
        self.versions.append(version)


def a_rollout(problem: str, sample: int, answer: str | None, **changes: Any) -> Trajectory:
    """A rollout that answered; None: an infrastructure failure aborted it."""
    text = f"</reason><answer>\\boxed{{{answer}}}</answer>"
    fields: dict[str, Any] = {
        "ids": [1, 2, 3, 4], "mask": [False, True, True, True], "logprob": [0.0, -1.0, -1.0, -1.0],
        "prompt_len": 1, "turns": [Turn(text=text, start=1, end=4, call=CallKind.NONE)],
        "stop": StopReason.ABORTED if answer is None else StopReason.ANSWER,
    }  # fmt: skip
    return Trajectory(
        run="r", checkpoint="rl1", benchmark="rl1", problem=problem, sample=sample, **(fields | changes)
    )


def scripted_stage(
    trajectories: list[Trajectory],
    trainer: FakeTrainer,
    sampler: FakeSampler,
    reward: Reward | None = None,
    **changes: Any,
) -> RlStage:
    config = resolve()
    names = sorted({t.problem for t in trajectories})
    section: StageSection = config.rl.stage("rl1").model_copy(update=changes)
    no_warmup = config.objective.optimizer.model_copy(update={"warmup_steps": 0})
    return RlStage(
        stage="rl1",
        section=section,
        objective=objective(group_size=4, prompts_per_step=len(names), optimizer=no_warmup),
        pool=[Problem(id=name, prompt="", answer="4") for name in names],
        trainer=cast(GrpoTrainer, trainer),
        sampler=cast(Sampler, sampler),
        grading=Grading(reward=reward or reward_function(objective())),
        seed=1,
        first_step=0,
    )


def real_stage(checkpoint: Path, reward: Reward = even_ids, *overrides: str) -> RlStage:
    """A stage with the real engine, trainer and loop; only the tool is a fake."""
    config = tiny_config(*overrides)
    settings = rl_settings(
        CHAT.of(config), config.rl.stage("rl1"), run="r", stage="rl1", runtime=config.runtime
    )
    engine = LocalEngine(
        engine=0, capacity_tokens=config.rollout.kv_tokens, max_len=settings.max_prompt + settings.max_response,
    )  # fmt: skip
    sampler = Sampler(
        engines=[engine], episodes=ToolEpisodes(tool=ScriptedTool(), chat=chat_format(config.rollout)),
        codec=FolderCodec.load(checkpoint), settings=settings, rollout=config.rollout,
    )  # fmt: skip
    trainer = GrpoTrainer(checkpoint, config.objective, torch.device("cpu"))
    sampler.take_weights(trainer, version=0)
    return RlStage(
        stage="rl1", section=config.rl.stage("rl1"), objective=config.objective, pool=POOL, trainer=trainer,
        sampler=sampler, grading=Grading(reward=reward), seed=3, first_step=0,
    )  # fmt: skip
