"""Importing anything outside the trainer, or one of its pure modules, must not import torch.

import-linter reads the import statements; this check runs them, so it also sees the imports of libraries. Torch takes
seconds to load, which a command line, a grader process and a sandbox must not pay.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.checks import tree

PURE = (
    "records/trajectory.py",
    "trainer/rollout/chat.py",
    "trainer/selection/roc.py",
    "trainer/selection/advantage.py",
    "trainer/scheduling",
    "trainer/data",
)
# `python - MODULE ...`: name the first module after whose import torch is loaded.
_PROBE = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(name)
"""


def problems(root: Path) -> list[str]:
    """The first module that imports torch, or cannot be imported."""
    return probe(root, modules(root))


def modules(root: Path) -> list[str]:
    """Dotted names of every module that must be free of torch."""
    tops = [package for package in tree.PACKAGES if package not in ("trainer", "evaluation", "bench")]
    return [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in tree.files(root)
        if path.suffix == ".py" and path.name != "__main__.py"
        if path.parts[0] in tops or path.as_posix().startswith(PURE)
    ]


def probe(root: Path, names: list[str]) -> list[str]:
    """Import the modules in a fresh interpreter."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *names], cwd=root, env=environment, capture_output=True, text=True
    )
    if done.returncode == 0:
        return []
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if last in names:
        return [f"{last}: importing it imports torch"]
    return [f"importing {', '.join(tree.PACKAGES)}: {last}"]
