"""The guides to a new benchmark, policy and figure, followed in a copy of the project: one file and one test each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checks import tree

BLOCK = re.compile(r"```python\n# ((?:verifier|trainer|analysis|tests)/\S+\.py)\n(.*?)```", re.DOTALL)
"""A file of the project that a document prints: path, text."""
GUIDES = {
    "verifier.md": ["verifier/benchmarks/sums.py", "tests/verifier/test_sums.py"],
    "scheduler.md": [
        "trainer/scheduling/policies/round_robin.py",
        "tests/trainer/scheduling/test_round_robin.py",
    ],
    "analysis.md": ["analysis/figures/step_seconds.py", "tests/analysis/test_step_seconds.py"],
}
HELD_BY = (
    "tests/config/test_names.py",
    "tests/trainer/scheduling/test_simulate.py",
    "tests/trainer/test_rollout_events.py",
    "tests/analysis/test_report.py",
)
"""Tests that hold no name and run what the new files declare."""


@pytest.mark.slow
def test_a_new_benchmark_policy_and_figure_are_one_file_and_one_test(
    project_root: Path, tmp_path: Path
) -> None:
    copy(project_root, tmp_path)
    tests = []
    for document, expected in GUIDES.items():
        files = dict(BLOCK.findall((project_root / "docs" / document).read_text(encoding="utf-8")))
        assert list(files) == expected
        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        tests.append(expected[1])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests, *HELD_BY],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    for name in ("round_robin", "sums", "step_seconds"):
        assert name in declared_names(tmp_path), name


def copy(project: Path, to: Path) -> None:
    """The files of the project, without its environment."""
    for path in tree.files(project):
        target = to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project / path, target)


def declared_names(root: Path) -> list[str]:
    """What the three packages of a copy declare."""
    code = (
        "from analysis.figures import PLOTS; from trainer.scheduling.policies import ALL as P;"
        "from verifier.benchmarks import ALL as B; print(*(one.name for one in (*PLOTS, *P, *B)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.split()
