"""The hard-problem filter before stage 3: drop what the stage-2 policy solves in every rollout (paper section 4.3).

Problems that are always failed stay, as far as the paper says. A rollout that our side lost counts as not solved.
"""

from __future__ import annotations

import shutil
import time
from typing import Any

from config.errors import ConfigError
from config.model import RuntimeSection
from config.sections import digest
from trainer.checkpoint import Manifest, verify, write_folder
from trainer.chunks import sample_in_chunks
from trainer.metrics import is_rewarded
from trainer.model import use_threads
from trainer.prepare import load_split, pool_digest, read_problems, write_problems
from trainer.reward import reward_function
from trainer.rollout import Task
from trainer.run_folder import RunFolder
from trainer.sampling import open_sampler, rl_settings
from trainer.seeds import derive_seed
from trainer.types import Problem, StopReason, Trajectory
from trainer.workdir import WorkDir
from verifier.verdict import reward_of

PROBLEMS = "problems.jsonl"


def filter_hard(view: Any, runtime: RuntimeSection) -> Manifest:
    """Publish hard/problems.jsonl. `view` holds sandbox, rollout, objective, rl.filter, rl.rl2."""
    use_threads(runtime, runtime.threads.eval)
    folder = RunFolder.of(runtime)
    checkpoint = folder.checkpoint("rl2")
    parent = verify(checkpoint)
    pool = load_split(runtime, "train")
    tried = sorted(pool, key=lambda p: derive_seed(view.rollout.seed, "filter", p.id))[
        : view.rl.filter.problems
    ]
    by_id = {problem.id: problem for problem in tried}
    tasks = [Task(problem=p, sample=i) for p in tried for i in range(view.rl.filter.rollouts)]
    settings = rl_settings(view, view.rl.rl2, run=folder.name, stage="filter", runtime=runtime)

    reward = reward_function(view.objective)

    def finish(trajectory: Trajectory) -> None:
        if trajectory.stop is StopReason.ABORTED:
            return
        trajectory.reward = reward_of(reward(by_id[trajectory.problem], trajectory).verdict)

    sections = {
        "rollout": view.rollout.model_dump(mode="json"),
        "sandbox": view.sandbox.model_dump(mode="json"),
        "objective": view.objective.model_dump(mode="json"),
        "rl.rl2": view.rl.rl2.model_dump(mode="json"),
        "rl.filter": view.rl.filter.model_dump(mode="json"),
    }
    fingerprint = digest([sections, parent.digest, pool_digest(pool)])
    with WorkDir.open(folder.work("filter"), fingerprint) as work:
        began = time.monotonic()
        with open_sampler(checkpoint, view.rollout, view.sandbox, settings, runtime) as sampler:
            sampler.engine.load_weights(checkpoint, version=0)
            trajectories = sample_in_chunks(
                sampler, tasks, work, name="rollouts", label="filter", policy_version=0, finish=finish
            )
        solved = num_solved(trajectories)
        hard = [p for p in tried if solved.get(p.id, 0) < view.rl.filter.rollouts]
        if not hard:
            raise ConfigError(
                "rl.filter: every problem tried is solved in every rollout, so stage 3 has nothing to train on; "
                "raise rl.filter.problems or rl.filter.rollouts, or set rl.rl3.pool to all"
            )
        made = work.path / "export"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        write_problems(hard, made / PROBLEMS)
        facts = {
            "num_tried": len(tried),
            "num_hard": len(hard),
            "num_never_solved": sum(solved.get(p.id, 0) == 0 for p in tried),
        }
        return write_folder(
            folder.hard,
            made,
            {
                "stage": "filter",
                "parent": parent.digest,
                "data": pool_digest(pool),
                "sections": sections,
                "facts": facts,
            },
            {"finished_unix_s": time.time(), "seconds": time.monotonic() - began},
        )


def num_solved(trajectories: list[Trajectory]) -> dict[str, int]:
    """Correct rollouts per problem."""
    counts: dict[str, int] = {}
    for trajectory in trajectories:
        counts[trajectory.problem] = counts.get(trajectory.problem, 0) + is_rewarded(trajectory)
    return counts


def load_hard(runtime: RuntimeSection) -> list[Problem]:
    """What the filter left, its digest checked."""
    folder = RunFolder.of(runtime).hard
    verify(folder)
    return read_problems(folder / PROBLEMS)
