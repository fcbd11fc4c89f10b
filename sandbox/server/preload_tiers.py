"""`Tiers`: picks the fork server that has preloaded only what the imports of a call require."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Imported by every tier: the modules that model programs import most often, each cheap to preload.
STANDARD = [
    "array",
    "ast",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "io",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "os",
    "random",
    "re",
    "statistics",
    "string",
    "sys",
    "tempfile",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
    "linecache",
]

# Packages outside the preload list that would import a preloaded one.
_BUILT_ON = {
    "numpy": (
        "scipy",
        "pandas",
        "matplotlib",
        "networkx",
        "sklearn",
        "cvxpy",
        "statsmodels",
        "numba",
        "torch",
    ),
    "sympy": ("mpmath",),
}


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers of a sandbox: tier 0 has the standard library only, tier k the first k modules of the preload list."""

    modules: tuple[tuple[str, ...], ...]
    patterns: tuple[re.Pattern[bytes], ...]
    """Pattern k finds a name that requires tier k + 1."""

    def of(self, code: bytes) -> int:
        """Return the cheapest tier for this code. A name in a comment counts: it costs speed, never correctness.

        >>> tiers = plan(("numpy", "sympy"))
        >>> [tiers.of(code) for code in (b"import math", b"import scipy.stats", b"from sympy import *")]
        [0, 1, 2]
        """
        for tier in range(len(self.patterns), 0, -1):
            if self.patterns[tier - 1].search(code):
                return tier
        return 0

    @property
    def last(self) -> int:
        """Return the tier with all modules: sessions use it, because their next cell may import anything."""
        return len(self.modules) - 1


def plan(preload: tuple[str, ...]) -> Tiers:
    """Make one tier per prefix of the preload list."""
    modules = tuple(preload[:size] for size in range(len(preload) + 1))
    patterns = tuple(_pattern(name) for name in preload)
    return Tiers(modules, patterns)


def _pattern(name: str) -> re.Pattern[bytes]:
    top = name.partition(".")[0]
    names = (top, *_BUILT_ON.get(top, ()))
    return re.compile(rb"\b(?:" + b"|".join(re.escape(entry.encode()) for entry in names) + rb")\b")
