"""`benchmark_names`: names that packages above declare, so that `resolve` can refuse a wrong one.

A package declares by files, which are found without importing them; `tests/config/test_names.py` compares.
"""

from __future__ import annotations

from pathlib import Path

from records.evaluation import POOLED

ROOT = Path(__file__).parents[1]
RESERVED_RUNS = ("reference", "baselines")
"""Folders of results/ that hold published numbers, not runs."""


def benchmark_names() -> tuple[str, ...]:
    """Return the benchmarks that a plan may name: `POOLED`, and one for each file of verifier/benchmarks."""
    return POOLED, *declared_names(ROOT / "verifier" / "benchmarks")


def scheduler_names() -> tuple[str, ...]:
    """Return the values of `rollout.scheduler`: one policy for each file of trainer/scheduling/policies."""
    return declared_names(ROOT / "trainer" / "scheduling" / "policies")


def declared_names(folder: Path) -> tuple[str, ...]:
    """Return the module names below a folder, sorted, with '-' between folders.

    >>> declared_names(ROOT / "verifier" / "benchmarks" / "procedural")
    ('composition', 'dev', 'family', 'numbers', 'wording')
    """
    files = (path.relative_to(folder) for path in folder.rglob("*.py") if path.name != "__init__.py")
    return tuple(sorted("-".join(file.with_suffix("").parts) for file in files))
