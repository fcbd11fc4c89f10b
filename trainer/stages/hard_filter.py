"""`filter_hard`: drops problems that the stage-2 policy solves in every rollout, before stage 3 (paper section 4.3).

Problems that every rollout fails stay, as in the paper. A rollout lost by the infrastructure counts neither as solved
nor as failed; a problem with no other rollout is left out.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from config.commands import FilterView
from config.model import RuntimeSection
from records.digest import digest
from records.errors import ConfigError
from records.manifest import Manifest, verify, write_folder
from records.problem import Problem
from records.seeds import derive_seed
from records.stages import FILTERED
from records.trajectory import GradedRollout, Rollout
from records.verdict import reward_of
from trainer.jobs.set_aside import free_name
from trainer.jobs.work_folder import WorkDir
from trainer.metrics.step_metrics import is_rewarded
from trainer.model import use_threads
from trainer.problems.problem_files import load_split, pool_digest, read_problems, write_problems
from trainer.rollout.chat import rollout_chat
from trainer.rollout.prompt_fit import fitting
from trainer.rollout.resumable import sample_in_chunks
from trainer.rollout.sampler import open_sampler, rl_settings
from trainer.rollout.task import Task
from trainer.rollout.tokenizer import FolderCodec
from trainer.selection.reward import reward_function

PROBLEMS = "problems.jsonl"
ROLLOUTS = "rollouts"
MOST_LOST = 0.1
"""Largest share of lost rollouts at which the filter still uses the others."""


def filter_hard(view: FilterView, runtime: RuntimeSection) -> Manifest:
    """Publish hard/problems.jsonl. Raises ConfigError if the filter is off, lost too much, or leaves no problem."""
    if view.filter is None:
        raise ConfigError("rl.filter is null, so there is no filter to run; give rollouts and problems")
    use_threads(runtime, runtime.threads.eval)
    folder = runtime.folder
    checkpoint = folder.checkpoint(FILTERED.parent or "")
    parent = verify(checkpoint)
    pool = load_split(runtime, "train")
    fit = fitting(
        pool,
        rollout_chat(view.rollout),
        FolderCodec.load(checkpoint),
        view.rollout.max_prompt,
        at_least=1,
        where="filter",
    )
    tried = sorted(fit, key=lambda p: derive_seed(view.rollout.seed, "filter", p.id))[: view.filter.problems]
    by_id = {problem.id: problem for problem in tried}
    tasks = [Task(problem=p, sample=i) for p in tried for i in range(view.filter.rollouts)]
    settings = rl_settings(view, view.stage, run=folder.name, stage="filter", runtime=runtime)

    reward = reward_function(view.objective)

    def grade(rollout: Rollout) -> GradedRollout:
        if not rollout.stop.is_models:
            return rollout.graded(reward=None)
        return rollout.graded(reward=reward_of(reward(by_id[rollout.problem], rollout).verdict))

    fingerprint = digest([view.record, parent.digest, pool_digest(pool)])
    with WorkDir.open(folder.work("filter"), fingerprint) as work:
        began = time.monotonic()
        with open_sampler(checkpoint, view.rollout, view.sandbox, settings, runtime) as sampler:
            sampler.engine.take_weights(checkpoint, version=0)
            rollouts = sample_in_chunks(
                sampler, tasks, work, name=ROLLOUTS, label="filter", policy_version=0, grade=grade
            )
        refuse_if_lost(rollouts, work)
        counts = num_solved(rollouts)
        hard = [p for p in tried if p.id in counts and counts[p.id][0] < counts[p.id][1]]
        if not hard:
            raise ConfigError(
                "rl.filter: every problem tried is solved in every rollout, so stage 3 has nothing to train on; "
                "raise rl.filter.problems or rl.filter.rollouts, or set rl.filter to null"
            )
        made = work.path / "export"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        write_problems(hard, made / PROBLEMS)
        facts = {
            "num_tried": len(tried),
            "num_hard": len(hard),
            "num_never_solved": sum(solved == 0 for solved, _ in counts.values()),
            "num_unknown": len(tried) - len(counts),
            "num_rollouts_lost": sum(rollout.reward is None for rollout in rollouts),
        }
        return write_folder(
            folder.hard,
            made,
            {
                "stage": "filter",
                "parent": parent.digest,
                "data": pool_digest(pool),
                "sections": view.record,
                "facts": facts,
            },
            {"finished_unix_s": time.time(), "seconds": time.monotonic() - began},
        )


def num_solved(rollouts: Sequence[GradedRollout]) -> dict[str, tuple[int, int]]:
    """Solved and graded rollouts per problem, without problems of which every rollout was lost.

    >>> names = dict(run="", checkpoint="", benchmark="filter", sample=0)
    >>> rewards = [("easy", 1.0), ("easy", None), ("hard", 0.0), ("hard", 1.0), ("lost", None)]
    >>> num_solved([GradedRollout(**names, problem=problem, reward=reward) for problem, reward in rewards])
    {'easy': (1, 1), 'hard': (1, 2)}
    """
    counts: dict[str, tuple[int, int]] = {}
    for rollout in rollouts:
        if rollout.reward is not None:
            solved, graded = counts.get(rollout.problem, (0, 0))
            counts[rollout.problem] = (solved + is_rewarded(rollout), graded + 1)
    return counts


def refuse_if_lost(rollouts: Sequence[GradedRollout], work: WorkDir) -> None:
    """Raise ConfigError when more than `MOST_LOST` of the rollouts were lost; the next run makes all of them again."""
    lost = sum(rollout.reward is None for rollout in rollouts)
    if lost <= MOST_LOST * len(rollouts):
        return
    aside = free_name(work.path, "lost")
    (work.path / ROLLOUTS).replace(aside)
    raise ConfigError(
        f"rl.filter: {lost} of {len(rollouts)} rollouts were lost by the engine, the sandbox or the reward, so "
        f"nothing can be decided about their problems; repair that and run again (the rollouts are kept in {aside})"
    )


def load_hard(runtime: RuntimeSection) -> list[Problem]:
    """Read the filtered problems after a check of their digest."""
    folder = runtime.folder.hard
    verify(folder)
    return read_problems(folder / PROBLEMS)
