"""Untrusted Python in isolated processes: `Sandbox` and the callers in front of it.

The names are imported on first use, because every fork server imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.client import (
        CallRecord,
        EqualCalls,
        NearLimitCalls,
        Sandbox,
        SandboxError,
        ToolRunner,
        is_near_limit,
        surroundings,
    )

__all__ = [
    "CallRecord",
    "EqualCalls",
    "NearLimitCalls",
    "Sandbox",
    "SandboxError",
    "ToolRunner",
    "is_near_limit",
    "surroundings",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'sandbox' has no attribute {name!r}")
    from sandbox import client

    return getattr(client, name)
