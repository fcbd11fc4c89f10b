"""Another stage is one entry of the stage table, and its values in the default preset."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from records.stages import STAGES
from tests.pipeline.checkout import Checkout, scheduled

pytestmark = pytest.mark.slow

ENTRY = '    Stage(name="rl4", kind=StageKind.RL, parent="rl3", label="RL 4"),\n'
VALUES = "  rl4: {steps: 2, max_response: 96, max_turns: 4}\n"
FACTS = """
import json
from pathlib import Path
from analysis.drawing.style import CHECKPOINT_LABELS
from config.commands import COMMANDS, RL
from config.resolve import resolve
from records.stages import CHECKPOINTS
view = RL["rl4"].of(resolve([Path("config/micro.yaml")]))
print(json.dumps([view.stage.steps, RL["rl4"] in COMMANDS, list(CHECKPOINT_LABELS), list(CHECKPOINTS)]))
"""


def insert(path: Path, text: str, before: str) -> None:
    whole = path.read_text(encoding="utf-8")
    assert before in whole
    path.write_text(whole.replace(before, text + before, 1), encoding="utf-8")


def test_a_fourth_stage_is_one_entry(project_root: Path, tmp_path: Path) -> None:
    checkout = Checkout.copy(project_root, tmp_path)
    insert(tmp_path / "records" / "stages.py", ENTRY, ")\nBY_NAME")
    insert(tmp_path / "config" / "tiny.yaml", VALUES, "  filter:\n")
    done = subprocess.run(
        [sys.executable, "-c", FACTS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    steps, is_command, labels, names = json.loads(done.stdout)
    expected = [*(stage.name for stage in STAGES), "rl4"]
    assert (steps, is_command, labels, names) == (2, True, expected, expected)
    rules = scheduled(
        checkout.snakemake(
            checkout.configure("four"), "-n", "results/four/checkpoints/rl4/manifest.json"
        ).stdout
    )
    assert rules["rl4"] == rules["rl3"] == rules["hard"] == 1
