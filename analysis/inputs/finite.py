"""`finite`: a value that JSON can hold."""

from __future__ import annotations

import math


def finite(value: object) -> object:
    """Return the value with null for every number that JSON cannot hold, such as an unbounded interval.

    >>> finite({"se": float("inf"), "p": [1.0, float("nan")]})
    {'se': None, 'p': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
