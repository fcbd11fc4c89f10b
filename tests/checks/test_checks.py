"""Each check of `python -m tests.checks` finds a planted fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.checks import circles, links, lock, places, public_names, schema, sizes, torch_free, tree, workflow

LONG_FUNCTION = "def grow():\n" + "    x = 1\n" * 80
NEEDLESS = '[[size]]\npath = "a.py"\nfunction = "grow"\nreason = "one table"\n'
PROJECT = '[project]\ndependencies = ["torch>=2.11,<2.14"]\n[project.optional-dependencies]\ndev = []\n'
PINS = dict.fromkeys(("constraints.txt", "constraints-vllm-cpu.txt"), "torch==2.13.0")
# A fake module of that name: loading the real one would take seconds.
TORCH = {"torch.py": "", "verifier/__init__.py": "", "verifier/b.py": "import torch"}
CIRCLE = {
    "config/__init__.py": "",
    "config/a.py": "def f():\n    from config.b import g\n",
    "config/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from config import a\n",
}
UNLISTED = {
    "config/__init__.py": "",
    "config/a.py": "b = 1",
    "verifier/__init__.py": "from config.a import b",
}
NO_LOG = 'rule a:\n    output:\n        "x"\n    shell:\n        "touch {output}"\n'


@pytest.mark.parametrize(
    ("check", "files", "finding"),
    [
        (sizes, {"a.py": LONG_FUNCTION}, "a.py:1: function grow has 81 lines"),
        (sizes, {"Snakefile": "x = 1\n" * 501}, "Snakefile:1: file has 501 lines"),
        (sizes, {"a.py": "x = 1\n", tree.EXEMPTIONS: NEEDLESS}, "needs no exemption"),
        (sizes, {"rows.jsonl": "x" * (2**20 + 1)}, "rows.jsonl: 1048577 bytes"),
        (places, {"docs/a.md": 'fine\nDATA = "/home/ann/data"\n'}, "docs/a.md:2: absolute path"),
        (places, {"a.md": "get it from https://pypi.org/simple"}, "a.md:1: package host"),
        (places, {"a.md": "pip install --extra-index-url X torch"}, "a.md:1: package index option"),
        (places, {"a.txt": "torch @ file:///wheels/torch.whl"}, "a.txt:1: file URL"),
        (links, {"README.md": "# Top\n\n[it](missing.md)\n"}, "README.md:3: link 'missing.md': no such file"),
        (links, {"README.md": "# Top\n\n[it](#bottom)\n"}, "README.md:3: link '#bottom': no such heading"),
        (circles, CIRCLE, "config.a -> config.b -> config.a: files that import each other"),
        (
            public_names,
            {"config/__init__.py": '"""- `a`: `b`"""', "config/a.py": ""},
            "lists b of a, which has none",
        ),
        (public_names, UNLISTED, "does not list config.a, which verifier imports"),
        (torch_free, TORCH, "verifier.b: importing it imports torch"),
        (torch_free, {"config/__init__.py": "import no_such_module"}, "no_such_module"),
        (schema, {"config/schema.json": "{not json"}, schema.STALE),
        (
            lock,
            {"pyproject.toml": PROJECT, **PINS, "constraints.txt": ""},
            "torch of pyproject.toml has no pin",
        ),
        (
            lock,
            {"pyproject.toml": PROJECT, **PINS, "constraints.txt": "torch==2.14.1"},
            "is outside pyproject.toml's",
        ),
        (
            lock,
            {"pyproject.toml": PROJECT, **PINS, "constraints.txt": "torch>=2.13"},
            "not a plain NAME==VERSION pin",
        ),
        pytest.param(workflow, {"Snakefile": NO_LOG}, "No log directive defined", marks=pytest.mark.slow),
    ],
)
def test_a_planted_fault_is_found(check: object, files: dict[str, str], finding: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    problems: Callable[[Path], list[str]] = check.problems  # type: ignore[attr-defined]
    assert any(finding in line for line in problems(tmp_path))


def test_no_direction_of_imports_has_an_exemption(project_root: Path) -> None:
    assert "ignore_imports" not in (project_root / "pyproject.toml").read_text()


def test_the_makefile_installs_without_dependencies_what_the_lock_keeps(project_root: Path) -> None:
    makefile = (project_root / "Makefile").read_text()
    assert f"WITHOUT_DEPENDENCIES := {' '.join(lock.WITHOUT_DEPENDENCIES)}\n" in makefile


@pytest.mark.parametrize("pinned", lock.LOCKS)
def test_indirect_dependencies_are_pinned(pinned: lock.Lock, project_root: Path) -> None:
    pins, _ = lock.read_pins(project_root, pinned)
    asked = [(r.name, frozenset(r.extras)) for r in lock.requirements(project_root, pinned)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while asked:
        name, extras = asked.pop()
        # torch pins its accelerator packages exactly; which of them a machine has depends on the machine.
        if (name, extras) not in seen and not name.startswith(("nvidia-", "cuda-", "triton")):
            seen.add((name, extras))
            asked += _needs(name, extras)
    assert {canonicalize_name(name) for name, _ in seen} <= pins.keys()


def _needs(name: str, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    try:
        found = [Requirement(text) for text in requires(name) or []]
    except PackageNotFoundError:
        return []
    chosen = [{"extra": extra} for extra in ("", *extras)]
    return [
        (r.name, frozenset(r.extras))
        for r in found
        if r.marker is None or any(r.marker.evaluate(extra) for extra in chosen)
    ]


@pytest.mark.parametrize(
    ("python", "message"),
    [("no-such-python", "error: no no-such-python here"), ("./old", "./old is 3.9; name another")],
)
def test_set_up_without_a_usable_python_is_one_line(
    python: str, message: str, tmp_path: Path, project_root: Path
) -> None:
    old = f"exec {sys.executable} -c 'import sys; sys.version_info = (3, 9); exec(sys.argv[1])'"
    (tmp_path / "old").write_text(f'#!/bin/sh\n{old} "$2"\n')
    (tmp_path / "old").chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((project_root / name).read_text())
    command = ["make", "--silent", "setup", f"PYTHON={python}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert (done.returncode, len(lines)) == (2, 1), done.stderr
    assert message in lines[0]
    assert not (tmp_path / ".venv").exists()
