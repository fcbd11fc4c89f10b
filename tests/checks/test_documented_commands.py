"""Every `python -m PACKAGE COMMAND --option` in a document is a command with these options."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.checks import tree

CALL = re.compile(r"(?<![\w/])python -m (config|sandbox|verifier|trainer|evaluation|analysis) ([^`\n#]*)")


FORWARDED = {("sandbox", "bench"): "bench.sandbox.__main__", ("trainer", "schedule"): "bench.schedule"}
"""Commands whose program is kept beside the packages."""


def commands_of(package: str) -> dict[str, Any]:
    module = f"{package}.cli" if importlib.util.find_spec(f"{package}.cli") else f"{package}.__main__"
    group: Any = typer.main.get_command(importlib.import_module(module).app)
    forwarded = {
        name: typer.main.get_command(importlib.import_module(module).app)
        for (owner, name), module in FORWARDED.items()
        if owner == package
    }
    return group.commands | forwarded


def faults(call: str, package: str) -> list[str]:
    """Faults of the words after `python -m PACKAGE`."""
    words = shlex.split(call.replace("(", " ").replace(")", " ").replace("[", " ").replace("]", " "))
    names = [word for word in words[:1] if re.fullmatch(r"[a-z][a-z-]*", word)]
    if not names:
        return []  # prose, a placeholder such as COMMAND, or --help
    command = commands_of(package).get(names[0])
    if command is None:
        return [f"python -m {package} {names[0]}: no such command"]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    used = [word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)]
    return [f"python -m {package} {names[0]} {word}: no such option" for word in used if word not in known]


@pytest.mark.parametrize(
    ("call", "package"),
    [
        ("rnu --checkpoint x", "evaluation"),
        ("run --chekpoint x", "evaluation"),
        ("show --sett a=1", "config"),
    ],
)
def test_a_wrong_call_is_found(call: str, package: str) -> None:
    assert len(faults(call, package)) == 1


def test_every_documented_command_exists_with_its_options(project_root: Path) -> None:
    found = []
    for path in tree.files(project_root):
        if path.suffix not in (".md", ".yaml"):
            continue
        for package, call in CALL.findall(tree.text_of(project_root / path) or ""):
            found += [f"{path}: {fault}" for fault in faults(call.rstrip(" .,;:\\"), package)]
    assert found == []
