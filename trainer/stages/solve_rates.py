"""Solve rates of problems under one policy: for the hard set, for a reference model, and before a run is paid for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from config.commands import RlView
from config.model import RuntimeSection
from records.files import write_text
from records.fingerprint import fingerprint
from records.problem import Problem
from records.trajectory import GradedRollout, IdsSource, Rollout, Trajectory
from records.verdict import reward_of
from trainer.data.solve_rates import SolveRate, histogram
from trainer.jobs.work_folder import WorkDir
from trainer.metrics.step_metrics import is_rewarded
from trainer.problems.problem_files import pool_digest
from trainer.rollout.chat import rollout_chat
from trainer.rollout.prompt_fit import fitting
from trainer.rollout.sample_chunks import sample_in_chunks
from trainer.rollout.sampler import open_sampler, rl_settings
from trainer.rollout.task import Task
from trainer.rollout.tokenizer import FolderCodec
from trainer.selection.reward import reward_function

ROLLOUTS = "rollouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who solves: a checkpoint in this process, or a server whose tokenizer the checkpoint folder holds."""

    checkpoint: Path
    endpoint: str | None = None


def solve(
    problems: Sequence[Problem],
    policy: Policy,
    view: RlView,
    runtime: RuntimeSection,
    work: WorkDir,
    *,
    rollouts: int,
    label: str,
) -> list[Trajectory]:
    """Sample `rollouts` of each problem with the budget of the view's stage, and grade them. Resumes after a kill."""
    by_id = {problem.id: problem for problem in problems}
    tasks = [Task(problem=problem, sample=i) for problem in problems for i in range(rollouts)]
    view = view.at_endpoint(policy.endpoint)
    settings = rl_settings(view, view.stage, run=runtime.folder.name, stage=label, runtime=runtime)
    if view.rollout.engine.kind == "endpoint":
        settings = replace(settings, ids_source=IdsSource.RETOKENISED, rejoin_iterations=None)
    reward = reward_function(view.objective)

    def grade(rollout: Rollout) -> GradedRollout:
        if not rollout.stop.is_models:
            return rollout.graded(reward=None)
        return rollout.graded(reward=reward_of(reward(by_id[rollout.problem], rollout).verdict))

    with open_sampler(policy.checkpoint, view.rollout, view.sandbox, settings, runtime) as sampler:
        sampler.load(policy.checkpoint)
        return sample_in_chunks(
            sampler, tasks, work, name=ROLLOUTS, label=label, policy_version=0, grade=grade
        )


def rates_of(problems: Sequence[Problem], rollouts: Sequence[GradedRollout]) -> list[SolveRate]:
    """One rate per problem, in the problems' order; lost rollouts count neither as solved nor as failed.

    >>> names = dict(run="", checkpoint="", benchmark="filter", sample=0)
    >>> rewards = [("easy", 1.0), ("easy", None), ("hard", 0.0), ("hard", 1.0), ("lost", None)]
    >>> made = [GradedRollout(**names, problem=problem, reward=reward) for problem, reward in rewards]
    >>> pool = [Problem(id=name, prompt="", answer="") for name in ("lost", "hard", "easy")]
    >>> [(rate.id, rate.solved, rate.graded) for rate in rates_of(pool, made)]
    [('lost', 0, 0), ('hard', 1, 2), ('easy', 1, 1)]
    """
    found = {problem.id: [0, 0, 0] for problem in problems}
    for rollout in rollouts:
        counts = found[rollout.problem]
        counts[2] += sum(rollout.mask)
        if rollout.reward is not None:
            counts[0] += is_rewarded(rollout)
            counts[1] += 1
    return [
        SolveRate(id=id, solved=solved, graded=graded, tokens=tokens)
        for id, (solved, graded, tokens) in found.items()
    ]


def write_rates(path: Path, rates: Sequence[SolveRate]) -> None:
    """One JSON line per problem."""
    write_text(path, "".join(json.dumps(asdict(rate), sort_keys=True) + "\n" for rate in rates))


def measure(
    problems: Sequence[Problem],
    policy: Policy,
    view: RlView,
    runtime: RuntimeSection,
    *,
    rollouts: int,
    limit: int | None,
    out: Path,
) -> list[str]:
    """Solve a user's problems before a run is paid for; writes `out` and returns lines for a reader.

    Args:
        problems: the whole set.
        policy: who solves.
        view: prompt, tool, reward, and the stage whose budget holds.
        runtime: where.
        rollouts: of each problem.
        limit: problems that are tried, the first ones; None: all.
        out: file of the solve rates; its work folder is beside it.
    """
    codec = FolderCodec.load(policy.checkpoint)
    chat = rollout_chat(view.rollout)
    fit = fitting(problems, chat, codec, view.rollout.max_prompt, at_least=1, where="--solve-rate")[:limit]
    decided_by = fingerprint(
        view.record, _state_of(policy.checkpoint), policy.endpoint, pool_digest(fit), rollouts
    )
    began = time.monotonic()
    with WorkDir.open(out.with_name(f".{out.name}.work"), decided_by) as work:
        rates = rates_of(fit, solve(fit, policy, view, runtime, work, rollouts=rollouts, label="solve-rate"))
    minutes = (time.monotonic() - began) / 60
    write_rates(out, rates)
    return [*summary(rates, rollouts), *_cost(rates, len(problems), rollouts, minutes), f"written: {out}"]


def _state_of(checkpoint: Path) -> list[list[str | int]]:
    """Names, sizes and times of a checkpoint's files: weights of gigabytes are not read for a fingerprint."""
    files = sorted(path for path in checkpoint.iterdir() if path.is_file())
    return [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def summary(rates: Sequence[SolveRate], rollouts: int) -> list[str]:
    r"""The histogram as text, and what the hard set would keep.

    >>> print("\n".join(summary([SolveRate(id="a", solved=2, graded=2), SolveRate(id="b", solved=0, graded=2)], 2)))
    solved 0 of 2:      1 ########################################
    solved 1 of 2:      0
    solved 2 of 2:      1 ########################################
    kept without those solved every time: 1 of 2; never solved: 1; unknown: 0
    """
    counts = histogram(rates, rollouts)
    most = max(*counts, 1)
    bars = [
        f"solved {solved} of {rollouts}: {count:6,} {'#' * round(40 * count / most)}".rstrip()
        for solved, count in enumerate(counts)
    ]
    unknown = sum(rate.graded == 0 for rate in rates)
    kept = sum(rate.graded > 0 and rate.solved < rate.graded for rate in rates)
    never = sum(rate.graded > 0 and rate.solved == 0 for rate in rates)
    return [
        *bars,
        f"kept without those solved every time: {kept} of {len(rates)}; never solved: {never}; unknown: {unknown}",
    ]


def _cost(rates: Sequence[SolveRate], num_problems: int, rollouts: int, minutes: float) -> Iterator[str]:
    tokens = sum(rate.tokens for rate in rates)
    yield f"{len(rates):,} problems x {rollouts} rollouts: {tokens:,} tokens in {minutes:.1f} minutes"
    if len(rates) < num_problems:
        scale = num_problems / len(rates)
        yield (
            f"all {num_problems:,} problems, by proportion: {round(tokens * scale):,} tokens, "
            f"{minutes * scale:.1f} minutes"
        )
