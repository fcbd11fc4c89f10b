"""Sampling that survives a kill: tasks in fixed chunks, each chunk's trajectories in one shard.

The chunks depend on the task list alone, so a resumed job makes the same batches, hence the same trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.progress import Progress
from trainer.rollout import Task
from trainer.sampling import Sampler
from trainer.trajectories import read_shard, write_shard
from trainer.types import Trajectory
from trainer.workdir import WorkDir

CHUNK = 1024
"""Rollouts of one chunk: enough to fill a batch, few enough to lose little."""


def sample_in_chunks(
    sampler: Sampler,
    tasks: Sequence[Task],
    work: WorkDir,
    *,
    name: str,
    label: str,
    policy_version: int,
    finish: Callable[[Trajectory], None],
) -> list[Trajectory]:
    """Sample all tasks; `finish` grades each trajectory in place before it is stored. Sorted by key."""
    done: list[Trajectory] = []
    with Progress.show(label, len(tasks)) as progress:
        for start in range(0, len(tasks), CHUNK):
            chunk = tasks[start : start + CHUNK]
            shard = work.path / name / f"{start:08d}.jsonl"
            if shard.is_file():
                trajectories = list(read_shard(shard))
            else:
                trajectories = [trajectory for trajectory, _ in sampler.run(chunk, policy_version)]
                for trajectory in trajectories:
                    finish(trajectory)
                write_shard(trajectories, shard)
            done += trajectories
            progress.advance(len(chunk))
    return sorted(done, key=lambda trajectory: trajectory.key)
