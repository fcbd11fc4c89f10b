"""Put each public fault back and require its test to fail: `python -m tests.mutants [B05 ...]`.

Works on a copy of the tree. Each patch runs in a fork of this process, in which torch and pytest are already loaded
but nothing of the project is, so that the copy is what gets imported.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

# The child processes compute on one thread, and a fork of a process with OpenMP threads would hang.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import typer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COPIED = ("config", "sandbox", "verifier", "trainer", "analysis", "tests", "docs", "pyproject.toml")
PACKAGES = ("config", "sandbox", "verifier", "trainer", "analysis", "tests")
TEST_LIMIT_S = 90
CPU_LIMIT_S = 120
"""Ends a mutant that never ends: hypothesis may try an endless example again after each time-out."""
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One patch file."""

    bug: str
    what: str
    tests: tuple[str, ...]
    """Node ids of pytest; at least one must fail."""
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to one mutant."""

    bug: str
    what: str
    verdict: str
    """caught, survived, or broken: the tests could not run at all."""
    tests: tuple[str, ...]
    seconds: float


def read(path: Path) -> Mutant:
    """Head of a patch: `Bnn: what`, then `test: node id` lines, then an empty line and the diff."""
    head = path.read_text().split("\n\n", 1)[0].splitlines()
    bug, _, what = head[0].partition(": ")
    tests = tuple(line.removeprefix("test: ") for line in head[1:] if line.startswith("test: "))
    if bug != path.stem or not what or not tests:
        raise ValueError(
            f"{path}: begin with '{path.stem}: what the fault is' and at least one 'test: node id' line"
        )
    return Mutant(bug=bug, what=what, tests=tests, path=path)


def all_mutants() -> list[Mutant]:
    """Every patch beside this file, by number."""
    return [read(path) for path in sorted(HERE.glob("*.patch"))]


def apply(path: Path, tree: Path, *options: str) -> str:
    """Apply a patch to a tree; returns what git complains about, empty when it fits."""
    # Without the ceiling, git would look for a repository above the tree and skip paths outside of it.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    command = ["git", "apply", "-C1", *options, str(path)]
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True).stderr


def copy_tree(to: Path) -> None:
    """What tests need, without caches: a stale byte-code file would hide a patch."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)


def run_tests(tree: Path, tests: Sequence[str]) -> int:
    """Exit status of pytest on the tree, in a fork; its output is dropped."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            _enter(tree)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"timeout={TEST_LIMIT_S}"]
            status = int(pytest.main([*options, *tests]))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _enter(tree: Path) -> None:
    """Make the forked process see the tree and nothing of the checkout."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    os.chdir(tree)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["PYTHONPATH"] = str(tree)
    sys.path[:] = [str(tree), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    importlib.invalidate_caches()


def judge(mutant: Mutant, tree: Path) -> Outcome:
    """Apply, test, take back."""
    began = time.monotonic()
    complaint = apply(mutant.path, tree)
    if complaint:
        verdict = f"broken: the patch does not fit ({complaint.splitlines()[0]})"
    else:
        status = run_tests(tree, mutant.tests)
        verdict = {TESTS_FAILED: "caught", 0: "survived"}.get(status, f"broken: pytest ended with {status}")
        apply(mutant.path, tree, "--reverse")
    return Outcome(
        bug=mutant.bug,
        what=mutant.what,
        verdict=verdict,
        tests=mutant.tests,
        seconds=time.monotonic() - began,
    )


def preload() -> None:
    """Load what is slow to import and not ours, once for all forks."""
    for name in (
        "pytest",
        "hypothesis",
        "torch",
        "transformers",
        "transformers.models.qwen3.modeling_qwen3",
        "yaml",
    ):
        importlib.import_module(name)


def main(
    bugs: Annotated[list[str] | None, typer.Argument(help="Numbers such as B05; all without one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Put each fault back in a copy of the tree; exit 1 if one goes unnoticed."""
    chosen = [mutant for mutant in all_mutants() if not bugs or mutant.bug in bugs]
    if not chosen:
        known = ", ".join(mutant.bug for mutant in all_mutants())
        print(f"error: no patch for {' '.join(bugs or [])}; there are {known}", file=sys.stderr)
        raise typer.Exit(2)
    preload()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder).resolve() / "tree"
        tree.mkdir()
        copy_tree(tree)
        if status := run_tests(tree, sorted({test for mutant in chosen for test in mutant.tests})):
            print(
                f"error: the tests do not pass without a patch (pytest ended with {status})", file=sys.stderr
            )
            raise typer.Exit(1)
        outcomes = []
        for mutant in chosen:
            outcome = judge(mutant, tree)
            outcomes.append(outcome)
            line = f"{outcome.bug}  {outcome.verdict:<9} {outcome.seconds:5.1f} s  {outcome.what}"
            print(json.dumps(asdict(outcome)) if as_json else line, flush=True)
    caught = sum(outcome.verdict == "caught" for outcome in outcomes)
    if not as_json:
        print(f"{caught} of {len(outcomes)} faults caught")
    raise typer.Exit(caught != len(outcomes))


if __name__ == "__main__":
    typer.run(main)
