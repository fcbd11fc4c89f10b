"""An arm differs by its settings alone: seed 0 of the paper's rule repeats stage 1 of the main run, bit for bit."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.arms import MAIN, ArmRun, view_of_arm
from config.commands import PREPARE, RL
from config.model import Config
from evaluation.experiments.arm import (
    _clear,
    require_published_metrics,
    run_arm,
    sealed_accuracy,
    summarise_main,
)
from evaluation.experiments.endpoints import curve, endpoints
from records.arm_record import ArmRecord
from records.errors import ConfigError
from records.evaluation import EvaluationSummary
from records.files import sha256_of
from records.manifest import Manifest, write_folder
from records.run_folder import RunFolder
from tests.analysis.fake_run import put, score_row, summary_json
from tests.trainer.tiny_checkpoint import tiny_config
from trainer.problems.prepare import prepare
from trainer.problems.problem_files import load_split, pool_digest
from trainer.stages.rl_job import run_stage

POOLED_ROW = score_row("rl1", "procedural", {"q": [1.0]}, k=1) | {"questions": {}}


@pytest.fixture(scope="module")
def config(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A run with problems and an SFT checkpoint, and nothing else."""
    config = tiny_config(
        "eval.plans.rl1.limit=3", "data.num_train=8", "data.num_test=4", "rl.rl1.steps=2",
        "data.num_sft=8", "data.num_dev=4", "eval.max_response=48", "objective.prompts_per_step=3",
        "sft.batch_size=8", "arms=null",
    )  # fmt: skip
    paths = config.runtime.paths.model_copy(update={"results": str(tmp_path_factory.mktemp("arm"))})
    config = config.model_copy(
        update={"runtime": config.runtime.model_copy(update={"paths": paths, "run": "r"})}
    )
    folder = config.runtime.folder
    prepare(PREPARE.of(config), config.runtime)
    folder.checkpoint("sft").parent.mkdir(parents=True)
    folder.checkpoint("sft").symlink_to(tiny_checkpoint)
    return config


def test_seed_0_of_the_papers_rule_is_the_main_stage(config: Config) -> None:
    runtime, run = config.runtime, ArmRun("roc_paper", MAIN, 0)
    arm = run_arm(run, view_of_arm(config, run), runtime)
    pool = load_split(runtime, "train")
    run_stage("rl1", RL["rl1"].of(config), runtime, pool, pool_digest(pool))
    folder = runtime.folder
    metrics = [json.loads(line) for line in folder.metrics("rl1").read_text().splitlines()]
    expected = endpoints(metrics, arm.endpoints["accuracy"])
    assert arm.endpoints == expected
    timing = [json.loads(line) for line in folder.timing("rl1").read_text().splitlines()]
    assert [replace(p, seconds=0.0) for p in arm.curve] == [
        replace(p, seconds=0.0) for p in curve(metrics, timing)
    ]
    assert (arm.run, arm.parent) == ("r", Manifest.load(folder.checkpoint("sft")).digest)
    assert not folder.work(f"arm_{run.name}").exists()
    put(folder.evaluation("rl1") / "summary.json", summary_json([POOLED_ROW | {"value": 0.25}]))
    own = summarise_main(run, runtime)
    assert own.endpoints == arm.endpoints | {"accuracy": 0.25}


def test_arms_and_seeds_differ_and_are_stored_by_name(config: Config) -> None:
    records = []
    for run in (ArmRun("grpo_g", MAIN, 0), ArmRun("grpo_g", MAIN, 1)):
        records.append(run_arm(run, view_of_arm(config, run), config.runtime))
        stored = ArmRecord.load(config.runtime.folder.arm(run.name))
        assert stored == records[-1]
        assert (stored.arm, stored.origin, stored.seed) == ("grpo_g", "main", run.seed)
        assert stored.curve[-1].rollouts == 2 * 3 * config.objective.group_size
    assert records[0].curve != records[1].curve


def test_a_signal_in_the_last_step_of_a_stage_stops_the_arm_before_the_next(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def stage(name: str, *_: Any) -> None:
        begun.append(name)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("evaluation.experiments.arm.run_stage", stage)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    run = ArmRun("same_steps", MAIN, 0)
    try:
        with pytest.raises(SystemExit) as left:
            run_arm(run, view_of_arm(config, run), config.runtime)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (left.value.code, begun) == (128 + signal.SIGTERM, ["rl1"])


def test_the_sealed_accuracy_uses_the_pooled_rings_only(tmp_path: Path) -> None:
    others = [
        {"grader": "rstar_compat", "value": 0.9},
        {"control": "mute"},
        {"benchmark": "procedural-family"},
    ]
    rows = [POOLED_ROW | changes for changes in others] + [POOLED_ROW | {"value": 0.5}]
    put(tmp_path / "summary.json", summary_json(rows))
    assert sealed_accuracy(EvaluationSummary.load(tmp_path)) == 0.5


def test_changed_metrics_give_no_summary(tmp_path: Path) -> None:
    folder, text = RunFolder(tmp_path / "r"), '{"step": 1}\n{"step": 2}\n'
    path = folder.metrics("rl1")
    path.parent.mkdir(parents=True)
    made = tmp_path / "made"
    made.mkdir()
    (made / "w").write_text("w")
    path.write_text(text)
    facts = {"metrics_sha256": sha256_of(path)}
    write_folder(
        folder.checkpoint("rl1"), made, {"stage": "rl1", "parent": None, "data": None, "facts": facts}, {}
    )
    require_published_metrics(folder, "rl1")
    for damage in (text[:12], text * 2, "", None):
        path.unlink(missing_ok=True)
        if damage is not None:
            path.write_text(damage)
        with pytest.raises(ConfigError, match=r"rl1\.jsonl: (differs|is missing).*run the stage again"):
            require_published_metrics(folder, "rl1")


def test_work_set_aside_in_an_arms_folder_is_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "arm")
    kept = folder.root / "work" / ".old" / "rl1-a"
    for path in (kept, folder.work("rl1"), folder.checkpoint("rl1")):
        path.mkdir(parents=True)
    (folder.root / "data").symlink_to(tmp_path)
    _clear(folder)
    assert [path.name for path in folder.root.iterdir()] == ["work"]
    assert [path.name for path in folder.work("").iterdir()] == [".old"]
    assert kept.is_dir()
    (folder.root / "work" / ".old" / "rl1-a").rmdir()
    (folder.root / "work" / ".old").rmdir()
    _clear(folder)
    assert not folder.root.exists()
