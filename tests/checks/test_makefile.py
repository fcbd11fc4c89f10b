"""Set-up as a stranger meets it. A stand-in interpreter records what it is asked; nothing is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Tells its version truthfully or, with OLD=1, as 3.9; `-m venv DIR` makes DIR/bin/python of itself.
STAND_IN = f"""#!/bin/bash
set -e
if [ "$1" = -c ] && [ "$OLD" = 1 ]; then
    exec "{sys.executable}" -c 'import sys; sys.version_info = (3, 9); exec(sys.argv[1])' "$2"
elif [ "$1" = -c ]; then
    exec "{sys.executable}" "$@"
elif [ "$2" = venv ]; then
    mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo venv >>calls
else
    echo "$@" >>calls
    if [ "$FAIL" = 1 ]; then exit 1; fi
fi
"""


@pytest.fixture
def folder(tmp_path: Path, project_root: Path) -> Path:
    """A checkout of nothing but the set-up."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(project_root / name, tmp_path)
    (tmp_path / "stand-in").write_text(STAND_IN)
    (tmp_path / "stand-in").chmod(0o755)
    return tmp_path


def setup(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--silent", "setup", f"PYTHON={environment.pop('PYTHON', './stand-in')}"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_a_fresh_checkout_gets_an_environment_of_pinned_packages_once(folder: Path) -> None:
    assert setup(folder).returncode == 0
    made, *installed = calls(folder)
    assert made == "venv"
    pip = [call for call in installed if call.startswith("-m pip")]
    assert len(pip) == 3
    assert all("-c constraints.txt" in call for call in pip)
    assert pip[1].endswith("-e .[dev,ifeval]")
    assert "--no-deps" in pip[2]
    assert "bfcl-eval" in pip[2]
    assert setup(folder).returncode == 0
    assert len(calls(folder)) == 1 + len(installed), "a second set-up has nothing to do"


def test_a_killed_set_up_starts_afresh(folder: Path) -> None:
    assert setup(folder, FAIL="1").returncode == 2
    (folder / ".venv" / "half-written").touch()
    assert setup(folder).returncode == 0
    assert not (folder / ".venv" / "half-written").exists()
    assert not (folder / ".venv.incomplete").exists()


def test_new_pins_are_installed_into_the_environment_that_is_there(folder: Path) -> None:
    setup(folder)
    (folder / ".venv" / "mine").touch()
    later = (folder / ".venv" / ".ready").stat().st_mtime + 10
    subprocess.run(["touch", "-d", f"@{later}", "constraints.txt"], cwd=folder, check=True)
    assert setup(folder).returncode == 0
    assert calls(folder).count("venv") == 1
    assert (folder / ".venv" / "mine").exists()


def test_an_old_python_is_refused_with_one_clear_line(folder: Path) -> None:
    done = setup(folder, OLD="1")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode == 2
    need = "error: Python 3.11 or newer is needed, ./stand-in is 3.9; "
    assert lines == [need + "name another: make PYTHON=/path/to/python3.11"]
    assert not (folder / ".venv").exists()


def test_a_missing_python_is_refused_with_one_clear_line(folder: Path) -> None:
    done = setup(folder, PYTHON="no-such-python")
    assert done.returncode == 2
    assert "error: no no-such-python here" in done.stderr


def test_there_are_at_most_ten_verbs_and_each_is_explained(project_root: Path) -> None:
    text = (project_root / "Makefile").read_text()
    (verbs,) = re.findall(r"^\.PHONY: (.*)$", text, re.M)
    header = text.partition("SHELL")[0]
    assert len(verbs.split()) <= 10
    assert all(re.search(rf"\b{verb}  ", header) for verb in verbs.split())
