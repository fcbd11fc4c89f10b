"""The walks of ARCHITECTURE.md name files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PLACE = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py):(\w+)`")


def test_every_function_of_the_walks_is_where_they_state(project_root: Path) -> None:
    text = (project_root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walks = text.split("\n## Walks\n")[1].split("\n## ")[0]
    places = PLACE.findall(walks)
    assert len(places) > 40
    assert [place for place in places if place[1] not in defined(project_root / place[0])] == []


def defined(path: Path) -> set[str]:
    """Functions, methods and classes of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)
    }
