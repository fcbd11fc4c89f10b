"""`digest`: the identity of a JSON value."""

from __future__ import annotations

import hashlib
import json


def canonical(value: object) -> str:
    """Return JSON with sorted keys and no blanks: equal values give equal strings.

    >>> canonical({"b": 1, "a": [1.0]})
    '{"a":[1.0],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: object) -> str:
    """Return the sha256 of the canonical JSON, as hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
