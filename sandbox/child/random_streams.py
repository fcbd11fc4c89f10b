"""`install` and `reseed`: random streams that depend only on the seed of the call.

Without them, every child would inherit the numpy stream of the fork server; `random`, `uuid4`, `tempfile` and
`numpy.random.default_rng()` would use entropy of the kernel.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

_entropy = random.Random(0)
_original_seed = random.Random.seed


def install() -> None:
    """Replace the sources of entropy that Python code reaches; the fork server calls it once, before its imports."""
    random.Random.seed = _seed  # type: ignore[method-assign, assignment]
    random.seed = random._inst.seed  # type: ignore[attr-defined, method-assign]
    os.urandom = random._urandom = _random_bytes  # type: ignore[attr-defined, assignment]
    _original_seed(_entropy, 0)


def reseed(seed: int) -> None:
    """Start every stream from `seed`, at the start of a call or of a session."""
    _original_seed(_entropy, seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _random_bytes(size: int) -> bytes:
    return _entropy.randbytes(size)


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    _original_seed(self, _entropy.getrandbits(64) if a is None else a, version)
