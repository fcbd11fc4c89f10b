"""`run_stage`: the job of an RL stage; it resumes, journals, saves and exports. `trainer.stages.rl` has the step."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from pathlib import Path

from config.commands import RlView
from config.model import RuntimeSection
from records.errors import ConfigError
from records.files import sha256_of, write_text
from records.fingerprint import fingerprint
from records.manifest import RUN, Manifest, verify, write_folder
from records.problem import Problem
from records.run_folder import RunFolder
from records.stages import BY_NAME
from records.trajectory_files import kept_for_disk, read_shard, write_parquet, write_shard
from trainer.jobs.interrupt import StopSignal
from trainer.jobs.progress import Progress
from trainer.jobs.work_folder import WorkDir
from trainer.metrics.rollout_text import chosen, rollout_text
from trainer.metrics.sinks import Sinks, open_sinks
from trainer.metrics.step_metrics import progress_note
from trainer.model import check_device, save_model, use_threads
from trainer.rollout.chat import Codec, rollout_chat
from trainer.rollout.episode import RolloutClock
from trainer.rollout.prompt_fit import fitting
from trainer.rollout.sampler import open_sampler, rl_settings
from trainer.rollout.template_check import check_template
from trainer.rollout.tokenizer import FolderCodec
from trainer.selection.grading import grading_of
from trainer.stages.rl import RlStage, StepOutcome
from trainer.stages.stall import StageStalled, StallWatch
from trainer.update.grpo import OPTIMIZER, GrpoTrainer

FORMAT = 4
"""Increment when a change makes old working folders unusable."""
CLOCK_COLUMNS = ["problem", "sample", *(column.name for column in fields(RolloutClock))]
"""Side table of clock-dependent values, one row per rollout."""


def run_stage(
    stage: str,
    view: RlView,
    runtime: RuntimeSection,
    pool: Sequence[Problem],
    pool_digest: str,
    stop: StopSignal | None = None,
) -> Manifest:
    """Train one stage from its parent's checkpoint; resume it after a kill. Returns the new manifest.

    Args:
        stage: an RL stage of `records.stages`.
        view: configuration sections of the stage.
        runtime: folders, threads, device.
        pool: problems.
        pool_digest: digest of the pool, for the fingerprint.
        stop: signal of a caller with work to do afterwards; a signal during the last step is left to that caller.
    """
    use_threads(runtime)
    folder = runtime.folder
    section = view.stage
    declared = BY_NAME[stage]
    parent_folder = folder.checkpoint(declared.parent or "")
    parent = verify(parent_folder)
    if view.objective.prompts_per_step > len(pool):
        raise ConfigError(
            f"objective.prompts_per_step = {view.objective.prompts_per_step}, but the pool of {stage} holds "
            f"{len(pool)} problems; lower it or make the pool larger (data.num_train, rl.filter.problems)"
        )
    chat = rollout_chat(view.rollout)
    fit = fitting(
        pool,
        chat,
        FolderCodec.load(parent_folder),
        view.rollout.max_prompt,
        at_least=view.objective.prompts_per_step,
        where=stage,
    )
    decided_by = fingerprint(FORMAT, stage, view.record, parent.digest, pool_digest)
    first_step = int(parent.facts.get("rl_steps", 0))
    stop = stop or StopSignal()
    with WorkDir.open(folder.work(stage), decided_by) as work:
        trainer = GrpoTrainer(parent_folder, view.objective, check_device(runtime))
        if not declared.new_optimizer and first_step:
            trainer.load_optimizer(parent_folder / OPTIMIZER)
        step = _restore(work, trainer, first_step)
        settings = rl_settings(view, section, run=folder.name, stage=stage, runtime=runtime)
        check_template(parent_folder, chat)
        with open_sampler(
            parent_folder,
            view.rollout,
            view.sandbox,
            settings,
            runtime,
            fail_frac=view.sandbox.fail_frac,
        ) as sampler:
            sampler.take_weights(trainer, version=step)
            rl = RlStage(
                stage=stage,
                section=section,
                objective=view.objective,
                pool=fit,
                trainer=trainer,
                sampler=sampler,
                grading=grading_of(view.objective),
                seed=view.rollout.seed,
                first_step=first_step,
            )
            with open_sinks(runtime.sinks, folder.root, folder.name, stage, step + 1) as sinks:
                _loop(rl, work, stop, sinks, step, view.rollout.keep, runtime.save_every_s)
        return _publish(rl, work, folder, parent, parent_folder, view, pool_digest)


def _restore(work: WorkDir, trainer: GrpoTrainer, first_step: int) -> int:
    """Load the newest undamaged state; returns its step."""
    newest = work.newest()
    step = first_step
    if newest is not None:
        step, state = newest
        trainer.load(state)
        print(f"{work.path}: resumes from the state of step {step}", flush=True)
    work.begin_attempt(step)
    return step


def _loop(
    rl: RlStage, work: WorkDir, stop: StopSignal, sinks: Sinks, step: int, keep: str, save_every_s: float
) -> None:
    last, saved, save_s = rl.first_step + rl.section.steps, step, 0.0
    watch = StallWatch(rl.section.steps)
    with Progress.show(rl.stage, rl.section.steps, step - rl.first_step) as progress:
        while step < last:
            step += 1
            outcome = rl.step(step)
            stalled = watch.see(outcome.metrics)
            if watch.num_fault == 1 and not outcome.metrics["num_updates"] and saved < step - 1:
                # The weights are still those of the step before, so the training since the last state is saved.
                work.save(step - 1, rl.trainer.save)
                saved = step - 1
            clock, save_s = replace(outcome.clock, save_s=save_s), 0.0
            _journal(work, replace(outcome, clock=clock), rl.sampler.codec, keep)
            sinks.write(step, outcome.journal_row, clock.to_json())
            for line in outcome.alarms:
                print(f"alarm, {rl.stage} step {step}: {line}", flush=True)
            if stalled is not None:
                raise StageStalled(f"{rl.stage} step {step}: {stalled}")
            due = work.unsaved_s >= save_every_s or stop.requested
            # A state within a streak of lost steps would count them as done once the tool works again.
            if (due and watch.is_sound) or step == last:
                began = time.monotonic()
                work.save(step, rl.trainer.save)
                saved = step
                save_s = time.monotonic() - began
            progress.advance(note=progress_note(outcome.metrics))
            if stop.requested and step < last:
                stop.leave()


def _journal(work: WorkDir, outcome: StepOutcome, codec: Codec, keep: str) -> None:
    step = outcome.step
    shard, text = _shard(work, step), _shard(work, step).with_suffix(".txt")
    write_shard(kept_for_disk(outcome.trajectories, keep), shard)
    write_text(text, "".join(rollout_text(trajectory, codec) for trajectory in chosen(outcome.trajectories)))
    work.seal(step, shard, text)
    work.append("metrics", outcome.journal_row)
    work.append("timing", outcome.clock.to_json())
    rollouts = [
        [t.problem, t.sample, *astuple(clock)]
        for t, clock in zip(outcome.trajectories, outcome.rollout_clocks, strict=True)
    ]
    work.append("clocks", {"step": step, "columns": CLOCK_COLUMNS, "rollouts": rollouts})


def _shard(work: WorkDir, step: int) -> Path:
    return work.path / "trajectories" / f"{step:06d}.jsonl"


def _publish(
    rl: RlStage,
    work: WorkDir,
    folder: RunFolder,
    parent: Manifest,
    parent_folder: Path,
    view: RlView,
    pool_digest: str,
) -> Manifest:
    """Export the checkpoint; metrics and trajectories first, the manifest last."""
    steps = range(rl.first_step + 1, rl.first_step + rl.section.steps + 1)
    work.require_whole(steps[-1])
    trajectories = (t for step in steps for t in read_shard(_shard(work, step)))
    num_trajectories = write_parquet(trajectories, folder.trajectories(rl.stage))
    texts = (_shard(work, step).with_suffix(".txt").read_text(encoding="utf-8") for step in steps)
    write_text(folder.trajectories(rl.stage).with_suffix(".txt"), "".join(texts))
    copy_journal(work, "metrics", folder.metrics(rl.stage))
    copy_journal(work, "timing", folder.timing(rl.stage))
    copy_journal(work, "clocks", folder.trajectories(rl.stage).with_suffix(".clocks.jsonl"))
    made = work.path / "export"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    copy_tokenizer(parent, parent_folder, made)
    save_model(rl.trainer.model, made)
    rl.trainer.save(made)
    (made / "weights.safetensors").unlink()
    return write_folder(
        folder.checkpoint(rl.stage),
        made,
        {
            "stage": rl.stage,
            "parent": parent.digest,
            "data": pool_digest,
            "sections": view.record,
            "steps": rl.section.steps,
            "facts": {
                "rl_steps": steps[-1],
                "num_trajectories": num_trajectories,
                "num_updates": num_updates(folder.metrics(rl.stage)),
                "keep": view.rollout.keep,
                "metrics_sha256": sha256_of(folder.metrics(rl.stage)),
            },
        },
        {
            "num_attempts": work.num_attempts(),
            "finished_unix_s": time.time(),
            "seconds": journal_seconds(folder.timing(rl.stage)),
            "timing_sha256": sha256_of(folder.timing(rl.stage)),
        },
    )


def num_updates(metrics: Path) -> int:
    """Optimizer updates of all steps; prints an alarm for a stage without updates, whose weights equal its parent's."""
    count = sum(json.loads(line)["num_updates"] for line in metrics.read_text(encoding="utf-8").splitlines())
    if not count:
        print(
            f"alarm, {metrics.stem}: no step trained anything; the weights are those of the parent",
            flush=True,
        )
    return count


def journal_seconds(timing: Path) -> float:
    """Wall seconds of all steps, over all attempts that count."""
    return sum(json.loads(line)["step_s"] for line in timing.read_text(encoding="utf-8").splitlines())


def copy_journal(work: WorkDir, journal: str, to: Path) -> None:
    """Publish a journal of the working folder."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(work.path / f"{journal}.jsonl", to)


NOT_TOKENIZER = {"config.json", "generation_config.json", RUN}


def is_tokenizer_file(name: str) -> bool:
    """True for tokenizer files: neither weights (one file or shards with index), optimizer state nor model shape.

    >>> [is_tokenizer_file(name) for name in ("tokenizer.json", "model-00001-of-00002.safetensors")]
    [True, False]
    """
    return ".safetensors" not in name and name not in NOT_TOKENIZER


def copy_tokenizer(parent: Manifest, parent_folder: Path, made: Path) -> None:
    """The tokenizer and template of a run never change; every checkpoint contains them."""
    for name in parent.files:
        if is_tokenizer_file(name):
            shutil.copyfile(parent_folder / name, made / name)
