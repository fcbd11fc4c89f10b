"""Runs on real problems to their first RL step with a tiny model: the preset small, and the example of the guide."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from config.commands import BASE, CORPUS, PREPARE, RL, SFT
from config.model import Config
from config.resolve import resolve
from records.files import read_jsonl
from records.manifest import Manifest
from trainer.problems.prepare import prepare
from trainer.problems.problem_files import load_split, pool_digest
from trainer.sft.corpus import build_corpus
from trainer.sft.sft import run_sft
from trainer.stages.base_checkpoint import make_base
from trainer.stages.rl_job import run_stage

SIZES = (
    "data.num_sft=12", "data.num_train=150", "data.num_dev=10", "data.num_test=4", "sft.batch_size=4",
    "sft.epochs=0.34", "objective.group_size=2", "objective.optimizer.warmup_steps=1", "rollout.engine={kind: local}",
    "rollout.max_prompt=1600", "rl.rl1.steps=1", "rl.rl1.max_response=48",
    "rl.rl1.max_turns=2", "sandbox.preload=[]",
    "runtime.device=cpu", "runtime.threads=1", "runtime.micro_batches=1", "objective.prompts_per_step=2",
    "runtime.sandbox_workers=1",
    "runtime.run=r", "arms=null", "sft.lr=1e-5",
)  # fmt: skip


def first_step(config: Config) -> tuple[Manifest, Manifest, Manifest]:
    """Data, corpus, base, SFT and the first RL stage; the manifests of data, SFT and stage."""
    runtime = config.runtime
    data = prepare(PREPARE.of(config), runtime)
    build_corpus(CORPUS.of(config), runtime)
    make_base(BASE.of(config), runtime)
    sft = run_sft(SFT.of(config), runtime)
    pool = load_split(runtime, "train")
    return data, sft, run_stage("rl1", RL["rl1"].of(config), runtime, pool, pool_digest(pool))


def configured(files: Sequence[Path], model: Path, results: Path, *overrides: str) -> Config:
    places = [f"model.path={model}", f"runtime.paths.results={results}"]
    return resolve(list(files), [*SIZES, *places, *overrides])


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.usefixtures("torch_settings")
def test_the_preset_small_reaches_its_first_rl_step_on_real_problems(
    project_root: Path, shared_dir: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    preset = project_root / "config" / "small.yaml"
    config = configured([preset], tiny_checkpoint, tmp_path, f"runtime.paths.data={shared_dir / 'data'}")
    assert config.data.source == "dapo"
    # 600 rows are enough for a first step; the whole set takes 20 CPU-seconds.
    rows = (shared_dir / "data" / "dapo_math_17k.jsonl").read_text(encoding="utf-8").split("\n")[:600]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dapo_math_17k.jsonl").write_text("\n".join(rows), encoding="utf-8")
    paths = config.runtime.paths.model_copy(update={"data": str(tmp_path / "data")})
    config = config.model_copy(update={"runtime": config.runtime.model_copy(update={"paths": paths})})
    data, sft, stage = first_step(config)
    assert data.facts["recipe"] == "dapo"
    assert data.facts["num_problems"]["train"] == 150
    assert sft.facts["num_too_long"] == 0
    assert (stage.stage, stage.facts["rl_steps"]) == ("rl1", 1)
    (step,) = read_jsonl(config.runtime.folder.metrics("rl1"))
    assert step["step"] == 1


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.usefixtures("torch_settings")
def test_the_guides_200_problems_of_gsm8k_go_through_sft_and_rl1(
    project_root: Path, shared_dir: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    """The program of the guide writes the file; the run has smol's configuration at the size of a test."""
    guide = (project_root / "docs" / "problems.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n# own_problems\.py\n(.*?)```", guide, re.DOTALL)
    source = shared_dir / "data" / "gsm8k_train.jsonl"
    subprocess.run([sys.executable, "-c", program, str(source)], cwd=tmp_path, check=True)
    rows = [json.loads(line) for line in (tmp_path / "gsm8k_200.jsonl").read_text().splitlines()]
    assert len(rows) == 200
    assert set(rows[0]) == {"id", "problem", "answer", "source"}
    preset = project_root / "config" / "smol.yaml"
    own = f"data.source={tmp_path / 'gsm8k_200.jsonl'}"
    config = configured([preset], tiny_checkpoint, tmp_path, own, "objective.micro_batch_tokens=4096")
    data, _, stage = first_step(config)
    assert data.facts["num_problems"]["train"] == 150
    assert data.facts["num_problems"]["dev"] == 10
    assert stage.facts["rl_steps"] == 1
    assert all(p.family == "gsm8k" for p in load_split(config.runtime, "train"))
