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
from records.errors import ConfigError
from records.files import free_name
from records.fingerprint import fingerprint
from records.manifest import Manifest, verify, write_folder
from records.problem import Problem
from records.seeds import derive_seed
from records.stages import FILTERED
from records.trajectory import GradedRollout
from trainer.data.solve_rates import histogram
from trainer.jobs.work_folder import WorkDir
from trainer.model import use_threads
from trainer.problems.problem_files import load_split, pool_digest, read_problems, write_problems
from trainer.rollout.chat import rollout_chat
from trainer.rollout.prompt_fit import fitting
from trainer.rollout.tokenizer import FolderCodec
from trainer.stages.solve_rates import ROLLOUTS, Policy, rates_of, solve, write_rates

PROBLEMS = "problems.jsonl"
RATES = "rates.jsonl"
"""Solved rollouts of each problem tried."""
MOST_LOST = 0.1
"""Largest share of lost rollouts at which the filter still uses the others."""


def filter_hard(view: FilterView, runtime: RuntimeSection) -> Manifest:
    """Publish hard/problems.jsonl. Raises ConfigError if the filter is off, lost too much, or leaves no problem."""
    if view.filter is None:
        raise ConfigError("rl.filter is null, so there is no filter to run; give rollouts and problems")
    use_threads(runtime)
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
    with WorkDir.open(
        folder.work("filter"), fingerprint(view.record, parent.digest, pool_digest(pool))
    ) as work:
        began = time.monotonic()
        count = view.filter.rollouts
        rollouts = solve(
            tried, Policy(checkpoint=checkpoint), view, runtime, work, rollouts=count, label="filter"
        )
        refuse_if_lost(rollouts, work)
        rates = rates_of(tried, rollouts)
        hard = [p for p, rate in zip(tried, rates, strict=True) if rate.solved < rate.graded]
        if not hard:
            raise ConfigError(
                "rl.filter: every problem tried is solved in every rollout, so stage 3 has nothing to train on; "
                "raise rl.filter.problems or rl.filter.rollouts, or set rl.filter to null"
            )
        made = work.path / "export"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        write_problems(hard, made / PROBLEMS)
        write_rates(made / RATES, rates)
        facts = {
            "num_tried": len(tried),
            "num_hard": len(hard),
            "num_never_solved": sum(rate.solved == 0 < rate.graded for rate in rates),
            "num_unknown": sum(rate.graded == 0 for rate in rates),
            "histogram": histogram(rates, count),
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
