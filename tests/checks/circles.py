"""`problems`: files that import each other in a circle, over any number of steps.

Imports within functions and for type checking count too: a reader follows them as well. An import of a name from a
package counts as one of its `__init__`, an import of a module as one of that module alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.checks import tree


def problems(root: Path) -> list[str]:
    """One line for a circle of imports."""
    return circle(imports(root))


def imports(root: Path) -> dict[str, set[str]]:
    """The modules of the packages that each module imports."""
    files = [path for path in tree.files(root) if path.suffix == ".py" and path.parts[0] in tree.PACKAGES]
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    return {
        name: imported(ast.parse((root / path).read_text(encoding="utf-8")), modules) - {name}
        for name, path in modules.items()
    }


def imported(module: ast.Module, known: Iterable[str]) -> set[str]:
    """The known modules that a syntax tree imports.

    >>> sorted(imported(ast.parse("import a, os\\nfrom b import c, d"), ["a", "b", "b.c"]))
    ['a', 'b', 'b.c']
    """
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {dotted if dotted in known else node.module for dotted in inner.values()}
    return names & set(known)


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """A circle in a graph of imports, as one line.

    >>> circle({"a": ["b"], "b": ["c"], "c": []}), circle({"a": ["b"], "b": ["a"]})
    ([], ['a -> b -> a: files that import each other; move what both use into a third'])
    """
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        steps = " -> ".join(reversed(error.args[1]))
        return [f"{steps}: files that import each other; move what both use into a third"]
    return []
