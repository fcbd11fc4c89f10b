"""`run_bench_module`: starts a measuring program that is in the repository and not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec


def run_bench_module(module: str, arguments: Sequence[str]) -> int:
    """Run `python -m MODULE ARGUMENTS` and return its exit status; 2 without the repository."""
    if find_spec("bench") is None:
        print(f"error: {module} is not installed; run this in a checkout of the repository", file=sys.stderr)
        return 2
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode
