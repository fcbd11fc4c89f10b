"""`sample_in_chunks`: sampling that survives a kill, in fixed chunks of tasks with one shard each.

The chunks depend on the task list alone, so a resumed job makes the same batches and rollouts. Where batches do not
matter (bit-equal runs are off, or a server samples), the journal of a chunk holds sample by sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from records.trajectory import GradedRollout, Rollout, Trajectory
from records.trajectory_files import read_shard, write_shard
from records.trajectory_row import from_row, to_row
from trainer.jobs.progress import Progress
from trainer.jobs.work_folder import WorkDir
from trainer.rollout.episode import RolloutClock
from trainer.rollout.grading_thread import graded_as_they_end
from trainer.rollout.task import RolloutSettings, Task

CHUNK = 1024
"""Rollouts of one chunk: enough to fill a batch, few enough to lose little."""


class Samples(Protocol):
    """Source of rollouts for tasks: a rollout loop, or conversations."""

    settings: RolloutSettings

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Rollout, RolloutClock]]: ...


def sample_in_chunks(
    sampler: Samples,
    tasks: Sequence[Task],
    work: WorkDir,
    *,
    name: str,
    label: str,
    policy_version: int,
    grade: Callable[[Rollout], GradedRollout],
) -> list[Trajectory]:
    """Sample all tasks and grade each rollout before it is stored. Sorted by key."""
    done: list[Trajectory] = []
    with Progress.show(label, len(tasks)) as progress:
        for start in range(0, len(tasks), CHUNK):
            chunk = tasks[start : start + CHUNK]
            shard = work.path / name / f"{start:08d}.jsonl"
            journal = (
                None if sampler.settings.rejoin_iterations is not None else shard.with_suffix(".journal")
            )
            graded = _stored(shard, work)
            if graded is not None:
                progress.advance(len(graded))
            else:
                graded = _read_journal(journal, chunk)
                progress.advance(len(graded))
                kept = {(one.problem, one.step, one.sample) for one in graded}
                missing = [task for task in chunk if (task.problem.id, task.step, task.sample) not in kept]
                ended = (rollout for rollout, _ in sampler.run(missing, policy_version))
                for one in graded_as_they_end(ended, partial(_keep, grade=grade, journal=journal)):
                    graded.append(one)
                    progress.advance(1)
                write_shard(graded, shard)
                work.seal(0, shard)
                if journal is not None:
                    journal.unlink(missing_ok=True)
            done += graded
    return sorted(done, key=lambda one: one.key)


def _stored(shard: Path, work: WorkDir) -> list[Trajectory] | None:
    """A finished chunk; None if there is none or, with one printed line, if the file was changed."""
    if not shard.is_file():
        return None
    if work.is_sealed(shard):
        return list(read_shard(shard))
    kept = shard.with_suffix(".damaged")
    shard.replace(kept)
    print(
        f"{shard}: differs from what was written; its samples are made again, the file is kept as {kept}",
        flush=True,
    )
    return None


def _read_journal(journal: Path | None, chunk: Sequence[Task]) -> list[Trajectory]:
    """Rollouts of a chunk that a kill interrupted, each once; lines that are broken or of other chunks are dropped."""
    if journal is None or not journal.is_file():
        return []
    missing = {(task.problem.id, task.step, task.sample) for task in chunk}
    whole: list[Trajectory] = []
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            one = from_row(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        key = (one.problem, one.step, one.sample)
        if key in missing:
            missing.remove(key)
            whole.append(one)
    write_shard(whole, journal)
    return whole


def _keep(rollout: Rollout, grade: Callable[[Rollout], GradedRollout], journal: Path | None) -> Trajectory:
    """Grade a rollout and append it to the journal, in the thread that grades."""
    one = grade(rollout).selected()
    if journal is not None:
        _append(journal, one)
    return one


def _append(journal: Path, one: Trajectory) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(to_row(one)) + "\n")
