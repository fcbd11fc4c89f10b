"""`derive_seed`: seeds that depend on their purpose, not on order, process or machine."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: str | int) -> int:
    """Return a 63-bit seed from a tuple of names and numbers (public fault B30: one stream per sample).

    >>> derive_seed(7, "rl1", 3, "p", 0) == derive_seed(7, "rl1", 3, "p", 0)
    True
    >>> derive_seed(7, "rl1", 3, "p", 0) == derive_seed(7, "rl1", 3, "p", 1)
    False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
