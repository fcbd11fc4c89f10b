"""import-linter's contracts in pyproject.toml, tried on a small tree of stand-in packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ALLOWED = {
    "config/model.py": "",
    "sandbox/records.py": "import config.model",
    "sandbox/client.py": "import sandbox.records",
    "verifier/verdict.py": "",
    "verifier/grade.py": "import trainer.types, trainer.chat, analysis.statistics",
    "verifier/evaluate.py": "def run():\n    import trainer.rollout",
    "trainer/types.py": "import sandbox.records, verifier.verdict",
    "trainer/chat.py": "import trainer.types",
    "trainer/roc.py": "",
    "trainer/advantage.py": "",
    "trainer/scheduler/__init__.py": "",
    "trainer/rollout.py": "import torch, sandbox.client, verifier.grade",
    "analysis/statistics.py": "",
    "analysis/entropy.py": "import config.model, trainer.types, trainer.scheduler",
}
FORBIDDEN = {
    "config/bad.py": ("import sandbox.records", "config is not allowed to import sandbox"),
    "sandbox/bad.py": ("import verifier.verdict", "sandbox is not allowed to import verifier"),
    "sandbox/worse.py": ("import analysis.statistics", "sandbox is not allowed to import analysis"),
    "verifier/bad.py": ("import trainer.rollout", "verifier is not allowed to import trainer"),
    "verifier/worse.py": ("import analysis.entropy", "verifier is not allowed to import analysis"),
    "analysis/bad.py": ("import trainer.rollout", "analysis is not allowed to import trainer"),
    "analysis/worse.py": ("def f():\n    import torch", "analysis is not allowed to import torch"),
    "trainer/types.py": ("import torch", "trainer.types is not allowed to import torch"),
    "trainer/chat.py": ("import torch", "trainer.chat is not allowed to import torch"),
    "trainer/roc.py": ("import torch", "trainer.roc is not allowed to import torch"),
    "trainer/advantage.py": ("import torch", "trainer.advantage is not allowed to import torch"),
    "trainer/scheduler/bad.py": ("import torch", "trainer.scheduler is not allowed to import torch"),
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
