"""Put each public fault back and require its test to fail: `python -m tests.mutants [B05 ...]`.

Works on a copy of the tree. Each fault runs in a fork of this process, which has loaded torch and pytest but no module
of the project, so the fork imports the copy.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

# The child processes compute on one thread, and a fork of a process with OpenMP threads would hang.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import typer

from tests.mutants.edits import Edit

FAULTS = Path(__file__).with_name("faults.toml")
ROOT = FAULTS.parents[2]
PACKAGES = ("records", "config", "sandbox", "verifier", "trainer", "evaluation", "analysis", "bench", "tests")
COPIED = (*PACKAGES, "docs", "results/reference", "pyproject.toml")
TEST_LIMIT_S = 90
CPU_LIMIT_S = 120
"""Ends a mutant that never ends: hypothesis may try an endless example again after each time-out."""
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault of `faults.toml`."""

    bug: str
    what: str
    tests: tuple[str, ...]
    """Node ids of pytest; at least one must fail."""
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to one mutant."""

    bug: str
    what: str
    verdict: str
    """caught, survived, or broken: the tests could not run at all."""
    tests: tuple[str, ...]
    seconds: float


def all_mutants(table: Path = FAULTS) -> list[Mutant]:
    """Every fault of the table, in its order. Raises ValueError where an entry lacks something."""
    mutants = []
    for entry in tomllib.loads(table.read_text(encoding="utf-8")).get("fault", []):
        try:
            edits = tuple(Edit(**edit) for edit in entry["edit"])
            mutant = Mutant(bug=entry["bug"], what=entry["what"], tests=tuple(entry["tests"]), edits=edits)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{table}: {entry.get('bug', 'an entry')}: {error}") from None
        if not (mutant.tests and mutant.edits):
            raise ValueError(f"{table}: {mutant.bug}: needs a test and an edit")
        mutants.append(mutant)
    return mutants


def apply(mutant: Mutant, tree: Path) -> dict[Path, str]:
    """Put the fault into a tree; returns each changed file as it was. Raises ValueError if it does not fit."""
    before: dict[Path, str] = {}
    try:
        for edit in mutant.edits:
            before.setdefault(tree / edit.file, edit.apply(tree))
    except (OSError, ValueError):
        restore(before)
        raise
    return before


def restore(before: dict[Path, str]) -> None:
    for path, text in before.items():
        path.write_text(text, encoding="utf-8")


def copy_tree(to: Path) -> None:
    """Files that tests need, without caches: a stale byte-code file would hide an edit."""
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
    os.environ["CI"] = "true"  # the same examples of hypothesis with and without the fault
    sys.path[:] = [str(tree), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    importlib.invalidate_caches()


def judge(mutant: Mutant, tree: Path) -> Outcome:
    """Apply the fault, run its tests, restore the tree."""
    began = time.monotonic()
    try:
        before = apply(mutant, tree)
    except (OSError, ValueError) as error:
        verdict = f"broken: {error}"
    else:
        status = run_tests(tree, mutant.tests)
        verdict = {TESTS_FAILED: "caught", 0: "survived"}.get(status, f"broken: pytest ended with {status}")
        restore(before)
    return Outcome(
        bug=mutant.bug,
        what=mutant.what,
        verdict=verdict,
        tests=mutant.tests,
        seconds=time.monotonic() - began,
    )


def preload() -> None:
    """Load slow third-party modules once for all forks."""
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
    """Put each fault back in a copy of the tree; exit status 1 if one is not caught."""
    chosen = [mutant for mutant in all_mutants() if not bugs or mutant.bug in bugs]
    if not chosen:
        known = ", ".join(mutant.bug for mutant in all_mutants())
        print(f"error: no fault {' '.join(bugs or [])}; there are {known}", file=sys.stderr)
        raise typer.Exit(2)
    preload()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder).resolve() / "tree"
        tree.mkdir()
        copy_tree(tree)
        if status := run_tests(tree, sorted({test for mutant in chosen for test in mutant.tests})):
            print(
                f"error: the tests do not pass without a fault (pytest ended with {status})", file=sys.stderr
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
