"""`Edit`: one change of one function, found by its name on the syntax tree and by its text, not by line numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace `old` by `new` inside `function` of `file`. Indentation of the whole text does not count."""

    file: str
    function: str
    """Qualified name such as `RolloutLoop._admit`; empty for the whole file."""
    old: str
    new: str

    def applied(self, source: str) -> str:
        """The changed source. Raises ValueError naming what does not fit."""
        lines, old = source.split("\n"), self.old.split("\n")
        start, end = self._span(source)
        expected = [line.strip() for line in old]
        found = [
            at
            for at in range(start, end - len(old) + 1)
            if [line.strip() for line in lines[at : at + len(old)]] == expected
        ]
        if len(found) != 1:
            raise ValueError(
                f"{self.file}: {self.function or 'the file'} holds `{old[0]}` {len(found)} times"
            )
        (at,) = found
        indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
        new = [indent + line if line else line for line in self.new.split("\n")]
        return "\n".join([*lines[:at], *new, *lines[at + len(old) :]])

    def apply(self, tree: Path) -> str:
        """Write the changed file; returns the text that was there."""
        path = tree / self.file
        source = path.read_text(encoding="utf-8")
        path.write_text(self.applied(source), encoding="utf-8")
        return source

    def _span(self, source: str) -> tuple[int, int]:
        """First line and one past the last of the function, from 0."""
        if not self.function:
            return 0, source.count("\n") + 1
        spans = dict(_functions(ast.parse(source), ""))
        if self.function not in spans:
            raise ValueError(f"{self.file}: has no {self.function}")
        return spans[self.function]


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            yield name, (child.lineno - 1, child.end_lineno or child.lineno)
            yield from _functions(child, f"{name}.")
