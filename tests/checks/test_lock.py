from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.checks import lock

PROJECT = """
[project]
dependencies = ["torch>=2.11,<2.14", "PyYAML>=6"]
[project.optional-dependencies]
dev = ["pytest>=9"]
"""
GOOD = "torch==2.13.0\npyyaml==6.0.4\npytest==9.2.0  # comment\n" + "".join(
    f"{name}==1.0\n" for name in lock.WITHOUT_DEPENDENCIES
)


def problems(folder: Path, constraints: str) -> list[str]:
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "constraints.txt").write_text(constraints)
    return lock.problems(folder)


def test_a_pin_for_each_dependency_inside_its_bounds_passes(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("torch==2.13.0", "torch==2.14.1", "outside pyproject.toml's"),
        ("torch==2.13.0", "torch==2.13.0+cpu", "not a plain NAME==VERSION pin"),
        ("torch==2.13.0", "torch @ https://host/torch.whl", "not a plain NAME==VERSION pin"),
        ("torch==2.13.0", "torch==2.*", "not a plain NAME==VERSION pin"),
        ("torch==2.13.0", "torch>=2.13.0", "not a plain NAME==VERSION pin"),
        ("pyyaml==6.0.4\n", "", "pyyaml of pyproject.toml has no pin"),
        ("pytest==9.2.0", "", "pytest of pyproject.toml has no pin"),
        ("bfcl-eval==1.0\n", "", "bfcl-eval, which the Makefile installs without its dependencies"),
    ],
)
def test_drift_is_found(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert any(message in line for line in problems(tmp_path, GOOD.replace(old, new)))


def test_the_makefile_installs_without_dependencies_what_the_lock_keeps(project_root: Path) -> None:
    makefile = (project_root / "Makefile").read_text()
    assert f"WITHOUT_DEPENDENCIES := {' '.join(lock.WITHOUT_DEPENDENCIES)}\n" in makefile


def test_the_pins_of_this_project_fit_its_bounds(project_root: Path) -> None:
    assert lock.problems(project_root) == []


def test_whatever_the_dependencies_need_is_pinned_too(project_root: Path) -> None:
    pins, _ = lock._read_pins((project_root / "constraints.txt").read_text().splitlines())
    asked = [(r.name, frozenset(r.extras)) for r in lock._requirements(project_root)]
    seen: set[tuple[str, frozenset[str]]] = set()
    missing = set()
    while asked:
        name, extras = asked.pop()
        if (name, extras) in seen or name.startswith(("nvidia-", "cuda-", "triton")):
            continue  # torch's accelerator packages depend on the machine; torch itself pins them exactly
        seen.add((name, extras))
        if canonicalize_name(name) not in pins:
            missing.add(name)
        asked += needs(name, extras)
    assert not missing, f"run `make lock`: no pin for {sorted(missing)}"


def needs(name: str, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    try:
        texts = requires(name) or []
    except PackageNotFoundError:
        return []
    found = [Requirement(text) for text in texts]
    return [
        (r.name, frozenset(r.extras))
        for r in found
        if r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]
