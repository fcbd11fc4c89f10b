"""`run_arm`: one experiment arm: the ordinary stages in their own folder, the sealed test, and a summary.

An arm differs from the main run only in its settings: `run_stage` and `filter_hard` run from a linked SFT checkpoint
and linked problems. An arm therefore resumes like the main run. Its folder is deleted after the summary is written.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from config.arms import MAIN, ArmRun, load_arms
from config.commands import ArmView, FilterView, RlView, SamplingView
from config.model import RuntimeSection, StageSection
from evaluation.evaluate import Intervals, Place, evaluate
from evaluation.experiments.endpoints import curve, endpoints
from records.arm_record import ArmRecord
from records.errors import ConfigError
from records.evaluation import POOLED, RINGS, EvaluationSummary
from records.files import sha256_of
from records.machine import this_machine
from records.manifest import MANIFEST, Manifest
from records.problem import Problem
from records.run_folder import RunFolder
from records.stages import BY_NAME, RL_STAGES
from trainer.jobs.interrupt import StopSignal
from trainer.problems.problem_files import load_split, pool_digest
from trainer.stages.hard_filter import filter_hard, load_hard
from trainer.stages.rl_job import run_stage

NO_INTERVALS = Intervals(confidence=0.95, seed=0)
"""The summary of an arm uses one mean; configured intervals would only cause finished arms to run again."""


def run_arm(run: ArmRun, view: ArmView, runtime: RuntimeSection) -> ArmRecord:
    """Train and test one arm; write and return arms/NAME.json, with the wall seconds of this attempt.

    Args:
        run: arm, origin and seed.
        view: its sections as the arm changes them.
        runtime: runtime section of the main run.
    """
    began = time.monotonic()
    main = runtime.folder
    results = main.working
    own = runtime.model_copy(
        update={"run": f"arm_{run.name}", "paths": runtime.paths.model_copy(update={"results": str(results)})}
    )
    folder = own.folder
    origin = main if run.origin == MAIN else main.origin(run.origin)
    link(main.data, folder.data)
    link(origin.checkpoint("sft"), folder.checkpoint("sft"))
    stages = list(view.stages)
    stop = StopSignal()
    for stage, section in view.stages.items():
        pool = _pool(view, stage, own)
        run_stage(stage, _stage_view(view, section), own, pool, pool_digest(pool), stop)
        if stop.requested:
            stop.leave()
    last = stages[-1]
    plan = view.eval.plans[RL_STAGES[0]]
    summary = evaluate(
        place=Place(checkpoint=folder.checkpoint(last), name=last),
        plans=[plan],
        view=SamplingView(sandbox=view.sandbox, rollout=view.rollout, eval=view.eval),
        intervals=NO_INTERVALS,
        runtime=own,
        rings=main.data,
        out=folder.evaluation(last),
        work=folder.work("eval"),
        overwrite=True,  # the arm's own folder: a kill after its evaluation leaves a summary there
    )
    record = replace(summarise(run, folder, stages, summary, main), seconds=time.monotonic() - began)
    record.write(main.arm(run.name))
    _clear(folder)
    return record


def _stage_view(view: ArmView, stage: StageSection) -> RlView:
    return RlView(sandbox=view.sandbox, rollout=view.rollout, objective=view.objective, stage=stage)


def _pool(view: ArmView, stage: str, runtime: RuntimeSection) -> list[Problem]:
    """Return the problems of a stage; the filter before it runs with the settings of its parent."""
    declared = BY_NAME[stage]
    if not declared.is_filtered or view.filter is None:
        return load_split(runtime, "train")
    filtering = _stage_view(view, view.stages[declared.parent or ""])
    filter_hard(FilterView(**dict(filtering), filter=view.filter), runtime)
    return load_hard(runtime)


def _clear(folder: RunFolder) -> None:
    """Remove the arm's folder after its summary is published; keep work of other settings."""
    work = folder.working
    for path in [*folder.root.iterdir(), *(work.iterdir() if work.is_dir() else ())]:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif path != work and path.name != ".old":
            shutil.rmtree(path)
    if not (work / ".old").exists():
        shutil.rmtree(folder.root)


def summarise_main(run: ArmRun, runtime: RuntimeSection) -> ArmRecord:
    """Summarise the main run's own stage 1 as an arm; write and return arms/NAME.json."""
    folder = runtime.folder
    summary = EvaluationSummary.load(folder.evaluation(RL_STAGES[0]))
    record = summarise(run, folder, RL_STAGES[:1], summary, folder)
    record.write(folder.arm(run.name))
    return record


def summarise(
    run: ArmRun, folder: RunFolder, stages: Sequence[str], summary: EvaluationSummary, main: RunFolder
) -> ArmRecord:
    """Return the record of an arm, from the stages and the evaluation in its folder; `main` is its run."""
    for stage in stages:
        require_published_metrics(folder, stage)
    metrics = [line for stage in stages for line in _lines(folder.metrics(stage))]
    timing = [line for stage in stages for line in _lines(folder.timing(stage))]
    if [line.get("step") for line in metrics] != [line.get("step") for line in timing]:
        raise ConfigError(
            f"{folder.timing(stages[-1])}: holds {len(timing)} steps, the metrics hold {len(metrics)}; delete "
            f"{folder.checkpoint(stages[-1]) / MANIFEST} and run the stage again"
        )
    return ArmRecord(
        arm=run.arm,
        origin=run.origin,
        seed=run.seed,
        text=load_arms().arms[run.arm].text,
        endpoints=endpoints(metrics, sealed_accuracy(summary)),
        curve=curve(metrics, timing),
        run=main.name,
        parent=Manifest.load(folder.checkpoint(stages[0])).parent,
        corpus=Manifest.load(folder.checkpoint("sft")).data,
        machine=this_machine(),
        outcomes=sealed_outcomes(summary),
    )


def require_published_metrics(folder: RunFolder, stage: str) -> None:
    """Raise ConfigError unless a stage's metrics are those that its checkpoint was published with."""
    path, checkpoint = folder.metrics(stage), folder.checkpoint(stage)
    expected = Manifest.load(checkpoint).facts.get("metrics_sha256")
    if not path.is_file() or sha256_of(path) != expected:
        what = "differs from what was published" if path.is_file() else "is missing"
        raise ConfigError(f"{path}: {what}; delete {checkpoint / MANIFEST} and run the stage again")


def sealed_accuracy(summary: EvaluationSummary) -> float:
    """Return avg@1 over the sealed test rings together."""
    (value,) = (
        row.value
        for row in summary.scores
        if (row.benchmark, row.metric, row.control, row.grader) == (POOLED, "avg@1", "none", "strict")
    )
    return value


def sealed_outcomes(summary: EvaluationSummary) -> dict[str, dict[str, float]]:
    """Test ring -> question -> outcome behind `sealed_accuracy`."""
    return {
        row.benchmark: {question: fmean(values) for question, values in row.questions.items()}
        for row in summary.scores
        if row.benchmark in RINGS and (row.metric, row.control, row.grader) == ("avg@1", "none", "strict")
    }


def link(target: Path, at: Path) -> None:
    """Link a folder of another run under a name in this run."""
    at.parent.mkdir(parents=True, exist_ok=True)
    if not at.is_symlink():
        at.symlink_to(target.resolve(), target_is_directory=True)


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        raise ConfigError(
            f"{path}: is missing or damaged; delete the stage's manifest and run it again"
        ) from None
