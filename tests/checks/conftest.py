from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def checkout(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Make a git checkout of the given files and return its root."""

    def make(files: dict[str, str]) -> Path:
        root = tmp_path / "checkout"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        return root

    return make
