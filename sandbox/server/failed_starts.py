"""`lost_at_start`: decides whether a call whose process ended before any code ran starts again."""

from __future__ import annotations

import os

from records.tool_call import Status, ToolResult
from sandbox.server.supervisor_state import Pending
from sandbox.wire import refusal

MAX_STARTS = 3
"""Starts of one call. No code has run, so another start is the same call; the bound stops a call that always fails."""


def lost_at_start(pending: Pending, why: str) -> ToolResult | None:
    """Return the result of a call whose process ended before any code ran; None: it may start once more."""
    pending.num_failed_starts += 1
    if pending.num_failed_starts < MAX_STARTS:
        return None
    text = f"the process of the call could not be set up: {why} (start {MAX_STARTS} of {MAX_STARTS})"
    return refusal(Status.LOST, text)


def why_not_set_up(err: int) -> str:
    """Return the text of a child that ended. No code has run, so the sandbox wrote it."""
    return os.pread(err, 400, 0).decode("utf-8", "replace").strip() or "it was killed"
