"""import-linter's contracts in pyproject.toml, tried on a small tree of stand-in packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ALLOWED = {
    "config/model.py": "",
    "records/tool_call.py": "import config.model",
    "sandbox/client/client.py": "import records.tool_call",
    "records/verdict.py": "",
    "verifier/graders/grade.py": "import records.trajectory, trainer.rollout.chat, records.statistics",
    "evaluation/evaluate.py": "def run():\n    import trainer.rollout.loop",
    "records/trajectory.py": "import records.tool_call, records.verdict",
    "trainer/rollout/chat.py": "import records.trajectory",
    "trainer/selection/roc.py": "",
    "trainer/selection/advantage.py": "",
    "trainer/scheduling/__init__.py": "",
    "trainer/rollout/loop.py": "import torch, sandbox.client.client, verifier.graders.grade",
    "records/statistics.py": "",
    "analysis/entropy/entropy.py": "import config.model, records.trajectory, trainer.scheduling",
}
FORBIDDEN = {
    "config/bad.py": ("import records.tool_call", "config is not allowed to import sandbox"),
    "sandbox/bad.py": ("import records.verdict", "sandbox is not allowed to import verifier"),
    "sandbox/worse.py": ("import records.statistics", "sandbox is not allowed to import analysis"),
    "verifier/bad.py": ("import trainer.rollout.loop", "verifier is not allowed to import trainer"),
    "verifier/worse.py": ("import analysis.entropy.entropy", "verifier is not allowed to import analysis"),
    "analysis/bad.py": ("import trainer.rollout.loop", "analysis is not allowed to import trainer"),
    "analysis/worse.py": ("def f():\n    import torch", "analysis is not allowed to import torch"),
    "records/trajectory.py": ("import torch", "records.trajectory is not allowed to import torch"),
    "trainer/rollout/chat.py": ("import torch", "trainer.rollout.chat is not allowed to import torch"),
    "trainer/selection/roc.py": ("import torch", "trainer.selection.roc is not allowed to import torch"),
    "trainer/selection/advantage.py": (
        "import torch",
        "trainer.selection.advantage is not allowed to import torch",
    ),
    "trainer/scheduler/bad.py": ("import torch", "trainer.scheduling is not allowed to import torch"),
}


def lint(folder: Path, project_root: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    shutil.copy(project_root / "pyproject.toml", folder)
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"COLUMNS": "200"})


def test_the_directions_of_the_design_are_kept(tmp_path: Path, project_root: Path) -> None:
    done = lint(tmp_path, project_root, ALLOWED)
    assert done.returncode == 0, done.stdout


def test_every_other_direction_is_broken(tmp_path: Path, project_root: Path) -> None:
    done = lint(tmp_path, project_root, ALLOWED | {name: text for name, (text, _) in FORBIDDEN.items()})
    assert done.returncode == 1
    missed = [message for _, message in FORBIDDEN.values() if message not in done.stdout]
    assert not missed, done.stdout
