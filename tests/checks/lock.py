"""constraints.txt: one exact version for everything that a set-up installs.

`python -m tests.checks.lock` resolves the project and the extras of a set-up afresh and rewrites the file; nothing
is installed. Pins in `KEPT` stay as they are: another torch is a decision, since every number depends on it.
`problems` finds drift between pyproject.toml and constraints.txt without a network.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

KEPT = ("torch", "setuptools")
WITHOUT_DEPENDENCIES = (
    "bfcl-eval",
    "llama-index-core",
    "tree-sitter",
    "tree-sitter-java",
    "tree-sitter-javascript",
)
"""Installed by the Makefile with `--no-deps`, so no resolution knows them: their pins stay as they are."""
EXTRAS = ("dev", "ifeval")
"""What a set-up installs besides the dependencies."""
HEADER = """\
# Exact versions of all that a set-up installs, tested with Python 3.11. Written by `make lock`; do not edit.
# Bounds are in pyproject.toml.
"""


def problems(root: Path) -> list[str]:
    """Ways in which constraints.txt fails to pin what pyproject.toml asks for."""
    lines = (root / "constraints.txt").read_text().splitlines()
    pins, found = _read_pins(lines)
    found += [
        f"constraints.txt: {name}, which the Makefile installs without its dependencies, has no pin"
        for name in WITHOUT_DEPENDENCIES
        if name not in pins
    ]
    for requirement in _requirements(root):
        name = canonicalize_name(requirement.name)
        if name not in pins:
            found.append(f"constraints.txt: {name} of pyproject.toml has no pin; run `make lock`")
        elif not requirement.specifier.contains(pins[name], prereleases=True):
            found.append(
                f"constraints.txt: {name}=={pins[name]} is outside pyproject.toml's {requirement.specifier};"
                " run `make lock`"
            )
    return found


def _read_pins(lines: list[str]) -> tuple[dict[str, Version], list[str]]:
    pins: dict[str, Version] = {}
    found: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, separator, version = text.partition("==")
        if not separator or set("@/:;+* ") & set(text):
            found.append(f"constraints.txt:{number}: {text!r} is not a plain NAME==VERSION pin")
            continue
        pins[canonicalize_name(name)] = Version(version)
    return pins, found


def _requirements(root: Path) -> list[Requirement]:
    """What a set-up asks for: the dependencies and its extras."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [text for extra in EXTRAS for text in project["optional-dependencies"].get(extra, [])]
    return [Requirement(text) for text in (*project["dependencies"], *extras)]


def render(report: dict[str, Any], kept: Mapping[str, Version]) -> str:
    """constraints.txt for a resolution, as pip's installation report gives it, and the pins that no resolution knows.

    >>> torch = {"metadata": {"name": "Torch", "version": "2.13.0+cpu"}}
    >>> print(*render({"install": [torch]}, {"bfcl-eval": Version("2026.3.23")}).splitlines()[-2:])
    bfcl-eval==2026.3.23 torch==2.13.0
    """
    versions = {name: str(version) for name, version in kept.items()}
    versions |= {
        canonicalize_name(item["metadata"]["name"]): item["metadata"]["version"].partition("+")[0]
        for item in report["install"]
    }
    versions.pop(canonicalize_name("rstar2-suite"), None)
    return HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def resolve(root: Path) -> dict[str, Any]:
    """Ask pip what a fresh set-up would install, the kept pins given."""
    pins, _ = _read_pins((root / "constraints.txt").read_text().splitlines())
    with tempfile.TemporaryDirectory() as folder:
        kept, report = Path(folder, "kept.txt"), Path(folder, "report.json")
        kept.write_text("".join(f"{name}=={pins[name]}\n" for name in KEPT))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += [
            "--no-build-isolation",
            "--report",
            str(report),
            "-c",
            str(kept),
            *KEPT,
            f"{root}[{','.join(EXTRAS)}]",
        ]
        subprocess.run(command, check=True)
        return json.loads(report.read_text())


def main() -> None:
    root = Path(__file__).parents[2]
    pins, _ = _read_pins((root / "constraints.txt").read_text().splitlines())
    text = render(resolve(root), {name: pins[name] for name in WITHOUT_DEPENDENCIES})
    (root / "constraints.txt").write_text(text)
    print(f"constraints.txt: {text.count('==')} pins")


if __name__ == "__main__":
    main()
