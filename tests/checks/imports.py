"""`problems`: modules that the start of a command must not import, by name.

An unused import costs every job of a run CPU-seconds. A clock differs between machines; the names of the imported
modules do not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TORCH = ("torch", "transformers")
TABLES = ("pandas", "scipy.stats", "statsmodels", "pyarrow")
DRAWING = ("matplotlib", "jinja2")
ALGEBRA = ("sympy", "math_verify")

FORBIDDEN = {
    # Of every job that a job server forks, before the server takes over.
    "records.job_client": (*TORCH, *TABLES, *DRAWING, *ALGEBRA, "numpy", "pydantic", "typer", "yaml"),
    "records.run_progress": (*TORCH, *TABLES, *DRAWING, *ALGEBRA, "numpy", "pydantic", "typer", "snakemake"),
    "evaluation.warm": ("pandas", "scipy.stats", "statsmodels", "matplotlib", "datasets", "math_verify"),
    "analysis.warm": (*TORCH, *ALGEBRA),
    **dict.fromkeys(
        ("trainer.cli", "evaluation.cli", "analysis.cli", "sandbox.cli", "config.__main__"),
        (*TORCH, *TABLES, *DRAWING, *ALGEBRA, "numpy"),
    ),
    **dict.fromkeys(
        ("config.workflow", "trainer.start", "analysis.report.closing"),  # of the Snakefile
        (*TORCH, *TABLES, *DRAWING, *ALGEBRA),
    ),
    "trainer.problems.prepare": (*TORCH, *TABLES, *DRAWING, *ALGEBRA),
    "trainer.sft.corpus": (*TORCH, *TABLES, *DRAWING, *ALGEBRA),
    "evaluation.evaluate": (*TORCH, *TABLES, *DRAWING, *ALGEBRA),
    "trainer.stages.rl_job": (
        "pandas",
        "scipy.stats",
        "statsmodels",
        "matplotlib",
        "datasets",
        "math_verify",
    ),
    "evaluation.experiments.arm": (
        "pandas",
        "scipy.stats",
        "statsmodels",
        "matplotlib",
        "datasets",
        "math_verify",
    ),
    "analysis.entropy.entropy_files": (*TORCH, *ALGEBRA, "statsmodels", "matplotlib"),
    "analysis.claims.claims_files": (*TORCH, *DRAWING, *ALGEBRA, "statsmodels"),
    "analysis.tables": (*TORCH, *DRAWING, *ALGEBRA, "statsmodels"),
    "analysis.report.verify": (*TORCH, *DRAWING, *ALGEBRA, "statsmodels"),
    "analysis.report.report": (*TORCH, *ALGEBRA, "statsmodels"),
}
"""Module that a command imports first -> modules that this import must not load."""

# `python -c PROBE MODULE FORBIDDEN ...`: print the forbidden modules that the import of MODULE loads.
_PROBE = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(" ".join(name for name in sys.argv[2:] if name in sys.modules))
"""


def problems(root: Path) -> list[str]:
    """One line for each module that loads what it must not, or cannot be imported."""
    return [line for module, names in FORBIDDEN.items() for line in probe(root, module, names)]


def probe(root: Path, module: str, forbidden: tuple[str, ...]) -> list[str]:
    """Import one module in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, module, *forbidden],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return [f"{module}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"]
    loaded = done.stdout.split()
    return (
        [f"{module}: its import loads {', '.join(loaded)}; import them where they are used"] if loaded else []
    )
