"""The examples of docs/guide.md, taken from its text and run unchanged except for sizes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from config.resolve import resolve

BLOCK = re.compile(r"```(?:python|yaml)\n# (\S+\.(?:py|yaml))\n(.*?)```", re.DOTALL)
SMALL = (
    "data: {num_sft: 300, num_train: 40, num_dev: 8, num_test: 8}\n"
    "sft: {epochs: 0.2, batch_size: 16}\n"
    "rl: {rl1: {steps: 1}}\n"
    "objective: {group_size: 2, prompts_per_step: 8, optimizer: {warmup_steps: 1}}\n"
    "arms: null\n"
)


@pytest.fixture(scope="module")
def written(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every named file that the guide prints."""
    folder = tmp_path_factory.mktemp("guide")
    text = (project_root / "docs" / "guide.md").read_text(encoding="utf-8")
    for name, content in BLOCK.findall(text):
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    return folder


def run(project_root: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{project_root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
    return done.stdout


def test_the_guide_prints_the_files_that_are_tested_here(written: Path) -> None:
    names = {path.name for path in written.iterdir()}
    assert {"my.yaml", "my_reward.py", "short.yaml", "my_tool.py", "divisors.yaml"} <= names


@pytest.mark.parametrize("name", ["my.yaml", "short.yaml", "divisors.yaml"])
def test_every_configuration_of_the_guide_resolves(
    name: str, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written)
    assert resolve([written / name]).runtime.run != "tiny"


@pytest.mark.parametrize("name", ["divisors"])
def test_an_example_trains_on_every_rollout_that_it_samples(
    name: str, project_root: Path, written: Path
) -> None:
    """The prompts fit as printed: a step in which none does trains nothing and reports it late."""
    files = ["--config", f"{name}.yaml", "--config", "small.yaml"]
    for command in (["prepare"], ["corpus"], ["base"], ["sft"], ["rl", "--stage", "rl1"]):
        run(project_root, written, "trainer", *command, *files)
    results = written / "results" / name
    (metrics,) = [json.loads(line) for line in (results / "metrics" / "rl1.jsonl").read_text().splitlines()]
    config = resolve([written / "small.yaml"])
    assert metrics["num_rollouts"] == 8 * config.objective.group_size * config.objective.roc.oversample
    assert metrics["num_no_reward"] == 0
    assert metrics["num_sampled_tokens"] >= metrics["num_rollouts"]
