"""Sampling that survives a kill: tasks in fixed chunks, each chunk's trajectories in one shard.

The chunks depend on the task list alone, so a resumed job makes the same batches, hence the same trajectories. Where
batches decide nothing (no bit-equal runs are asked for, or a server answers) a chunk is journalled sample by sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from records.files import write_text
from records.trajectory import Trajectory
from records.trajectory_files import read_shard, write_shard
from trainer.jobs.progress import Progress
from trainer.jobs.work_folder import WorkDir
from trainer.rollout.loop import RolloutClock, RolloutSettings, Task

CHUNK = 1024
"""Rollouts of one chunk: enough to fill a batch, few enough to lose little."""


class Samples(Protocol):
    """Makes trajectories of tasks: a rollout loop, or conversations."""

    settings: RolloutSettings

    def run(
        self, tasks: Sequence[Task], policy_version: int
    ) -> Iterator[tuple[Trajectory, RolloutClock]]: ...


def sample_in_chunks(
    sampler: Samples,
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
            journal = (
                None if sampler.settings.rejoin_iterations is not None else shard.with_suffix(".journal")
            )
            trajectories = _stored(shard, work)
            if trajectories is not None:
                progress.advance(len(trajectories))
            else:
                trajectories = _read_journal(journal, chunk)
                progress.advance(len(trajectories))
                kept = {(t.problem, t.step, t.sample) for t in trajectories}
                missing = [task for task in chunk if (task.problem.id, task.step, task.sample) not in kept]
                for trajectory, _ in sampler.run(missing, policy_version):
                    finish(trajectory)
                    trajectories.append(trajectory)
                    _append(journal, trajectory)
                    progress.advance(1)
                write_shard(trajectories, shard)
                work.seal(0, shard)
                if journal is not None:
                    journal.unlink(missing_ok=True)
            done += trajectories
    return sorted(done, key=lambda trajectory: trajectory.key)


def _stored(shard: Path, work: WorkDir) -> list[Trajectory] | None:
    """A chunk that was finished; None when there is none, or when it is not what was written (said in one line)."""
    if not shard.is_file():
        return None
    if work.is_sealed(shard):
        return list(read_shard(shard))
    kept = shard.with_suffix(".damaged")
    shard.replace(kept)
    print(
        f"{shard}: is not what was written; its samples are made again, the file is kept as {kept}",
        flush=True,
    )
    return None


def _read_journal(journal: Path | None, chunk: Sequence[Task]) -> list[Trajectory]:
    """Samples of a chunk that a kill cut short, each once; a line half written, or of another chunk, goes."""
    if journal is None or not journal.is_file():
        return []
    wanted = {(task.problem.id, task.step, task.sample) for task in chunk}
    whole = []
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            trajectory = Trajectory.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        key = (trajectory.problem, trajectory.step, trajectory.sample)
        if key in wanted:
            wanted.remove(key)
            whole.append(trajectory)
    write_text(journal, "".join(json.dumps(trajectory.to_json()) + "\n" for trajectory in whole))
    return whole


def _append(journal: Path | None, trajectory: Trajectory) -> None:
    if journal is None:
        return
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(trajectory.to_json()) + "\n")
