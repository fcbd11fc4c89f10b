"""import-linter's contracts in pyproject.toml, tried on a small tree of stand-in packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ALLOWED = {
    "records/trajectory.py": "",
    "config/model.py": "import records.trajectory",
    "sandbox/client.py": "import config.model",
    "verifier/grade.py": "import config.model",
    "trainer/rollout/chat.py": "import records.trajectory",
    "trainer/rollout/loop.py": "import torch, sandbox.client, verifier.grade",
    "trainer/selection/roc.py": "",
    "trainer/selection/advantage.py": "",
    "trainer/scheduling/policy.py": "",
    "evaluation/evaluate.py": "import trainer.rollout.loop, verifier.grade",
    "analysis/entropy.py": "import config.model, records.trajectory",
    "bench/decode.py": "import trainer.rollout.loop, evaluation.evaluate",
}
FORBIDDEN = {
    "records/bad.py": ("import config.model", "records is not allowed to import config"),
    "config/bad.py": ("import sandbox.client", "config is not allowed to import sandbox"),
    "sandbox/bad.py": ("import verifier.grade", "sandbox is not allowed to import verifier"),
    "verifier/bad.py": ("import trainer.rollout.loop", "verifier is not allowed to import trainer"),
    "verifier/worse.py": ("import analysis.entropy", "verifier is not allowed to import analysis"),
    "trainer/bad.py": (
        "def f():\n    import evaluation.evaluate",
        "trainer is not allowed to import evaluation",
    ),
    "analysis/bad.py": ("import trainer.rollout.loop", "analysis is not allowed to import trainer"),
    "analysis/worse.py": ("def f():\n    import torch", "analysis is not allowed to import torch"),
    "trainer/scheduling/bad.py": ("import torch", "trainer.scheduling is not allowed to import torch"),
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


def test_no_contract_has_an_exemption(project_root: Path) -> None:
    assert "ignore_imports" not in (project_root / "pyproject.toml").read_text()
