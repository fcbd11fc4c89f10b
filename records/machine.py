"""`Machine`: where a result was computed. Numbers of two machines differ by rounding, seconds by more."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from records.stored import Stored

PACKAGES = ("torch", "transformers", "numpy", "scipy", "sympy", "math-verify", "snakemake")
"""Packages whose version can change a number."""
VECTORS = ("amx_bf16", "avx512f", "avx2", "neon", "asimd")
"""Vector units, the widest first: they decide the order of additions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Stored):
    """Code, packages, processor and system."""

    commit: str | None
    """Git commit, with `+` where tracked files differ from it; None outside a checkout."""
    processor: str
    vectors: str | None
    """Widest of `VECTORS` that the processor has."""
    cores: int
    system: str
    python: str
    packages: dict[str, str]


@cache
def this_machine() -> Machine:
    """The machine of this process. Reads no clock, so two calls agree."""
    info = _cpuinfo()
    flags = info.get("flags", info.get("Features", "")).split()
    return Machine(
        commit=_commit(),
        processor=info.get("model name", platform.machine()),
        vectors=next((name for name in VECTORS if name in flags), None),
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        packages={name: version for name in PACKAGES if (version := _version(name)) is not None},
    )


def _cpuinfo() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        head, changes = (
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changes else "")
