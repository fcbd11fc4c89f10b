"""`problems`: what an `__init__` states of its package, held to the modules.

A package lists its public modules in the docstring of its `__init__`, each with its main names:

    - `seeds`: `derive_seed`

Every name exists, and every module that other packages import from is in the list. Names that an `__init__` exports
itself (`__all__`) need no list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.checks import tree

ITEM = re.compile(r"^- `(\w+)`: ((?:`\w+`,?\s*)+)", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")


@dataclass(frozen=True, slots=True)
class Sources:
    """The modules of the packages by dotted name."""

    modules: Mapping[str, ast.Module]
    packages: frozenset[str]

    @classmethod
    def read(cls, root: Path) -> Sources:
        modules, packages = {}, set()
        for path in tree.files(root):
            if path.suffix != ".py" or path.parts[0] not in tree.PACKAGES:
                continue
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            modules[name] = ast.parse((root / path).read_text(encoding="utf-8"))
            if path.name == "__init__.py":
                packages.add(name)
        return cls(modules, frozenset(packages))

    def package_of(self, module: str) -> str:
        return module if module in self.packages else module.rpartition(".")[0]


def problems(root: Path) -> list[str]:
    """One line for a name that does not exist, and for a module that other packages use and no list names."""
    sources = Sources.read(root)
    return [*_missing(sources), *_unlisted(sources)]


def _missing(sources: Sources) -> Iterator[str]:
    for package in sorted(sources.packages):
        for module, names in listed(sources.modules[package]).items():
            defined = names_of(sources.modules.get(f"{package}.{module}"))
            for name in sorted(names - defined):
                yield f"{package}/__init__.py: lists {name} of {module}, which has none; correct the list"


def _unlisted(sources: Sources) -> Iterator[str]:
    for module, syntax in sorted(sources.modules.items()):
        own = sources.package_of(module)
        for used in sorted(imported_modules(syntax, sources)):
            package = sources.package_of(used)
            if used == package or own == package or own.startswith(f"{package}."):
                continue
            if used.rpartition(".")[2] not in listed(sources.modules[package]):
                yield f"{package}/__init__.py: does not list {used}, which {module} imports; list it"


def listed(init: ast.Module) -> dict[str, set[str]]:
    """Module -> names, from the docstring of an `__init__`.

    >>> listed(ast.parse("'- `seeds`: `derive_seed`'"))
    {'seeds': {'derive_seed'}}
    """
    items = ITEM.findall(ast.get_docstring(init) or "")
    return {module: set(NAME.findall(names)) for module, names in items}


def names_of(module: ast.Module | None) -> set[str]:
    """What a module defines or imports at its top level."""
    names: set[str] = set()
    for node in module.body if module is not None else ():
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def imported_modules(syntax: ast.Module, sources: Sources) -> set[str]:
    """The project's modules that a syntax tree imports, or imports names from."""
    used: set[str] = set()
    for node in ast.walk(syntax):
        if isinstance(node, ast.ImportFrom) and node.module in sources.modules:
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            used |= {name if name in sources.modules else str(node.module) for name in inner.values()}
    return used - sources.packages
