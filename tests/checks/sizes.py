"""`problems`: code files over 500 lines, functions over 80 lines, files over 1 MiB.

An exemption names the file, the function if one is meant, and the reason. An exemption without need is itself a
finding, so the list stays minimal.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.checks import tree

FILE_LINES = 500
FUNCTION_LINES = 80
FILE_BYTES = 2**20


def problems(root: Path) -> list[str]:
    """Files and functions over the limit without an exemption, and exemptions without need."""
    granted = {(item["path"], item.get("function", "")) for item in tree.exemptions(root, "size")}
    used: set[tuple[str, str]] = set()
    found = []
    for path in tree.files(root):
        size = (root / path).stat().st_size
        if size > FILE_BYTES:
            found.append(f"{path}: {size} bytes, at most {FILE_BYTES} are allowed; data do not belong here")
        if path.suffix not in (".py", ".smk") and path.name != "Snakefile":
            continue
        for name, line, length, limit in _too_long(path, (root / path).read_text()):
            key = (path.as_posix(), name)
            used.add(key)
            if key not in granted:
                what = f"function {name}" if name else "file"
                found.append(f"{path}:{line}: {what} has {length} lines, at most {limit} are allowed")
    for path, name in sorted(granted - used):
        found.append(f"{tree.EXEMPTIONS}: {path} {name} needs no exemption any more; remove it")
    return found


def _too_long(path: Path, text: str) -> list[tuple[str, int, int, int]]:
    """(function name or '', first line, lines, limit) of everything over its limit."""
    lines = len(text.splitlines())
    found = [("", 1, lines, FILE_LINES)] if lines > FILE_LINES else []
    if path.suffix != ".py":
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append((node.name, node.lineno, length, FUNCTION_LINES))
    return found
