"""`declared`: the objects that the modules of a package declare, one each; a new file requires no list entry."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TypeVar

T = TypeVar("T")


def declared(package: str, name: str, kind: type[T]) -> tuple[T, ...]:
    """Return the object `name` of every module below a package, in the order of the modules' names.

    Sub-packages hold modules and declare nothing themselves.

    Raises:
        TypeError: a module has no such object, or one of another type.
    """
    folder = importlib.import_module(package).__path__
    modules = sorted(found.name for found in pkgutil.walk_packages(folder, f"{package}.") if not found.ispkg)
    return tuple(_declared_by(module, name, kind) for module in modules)


def _declared_by(module: str, name: str, kind: type[T]) -> T:
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, kind):
        raise TypeError(
            f"{module}: declares no {name} of type {kind.__name__}; give it one, or move the file"
        )
    return found
