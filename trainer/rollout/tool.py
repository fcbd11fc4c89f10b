"""`open_tool`: the configured tool of a job, ready for calls."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from config.model import Control, RuntimeSection, SandboxSection
from records.tool_call import Limits, Status, ToolCall, ToolError, ToolResult
from sandbox import CallRecord, EqualCalls, NearLimitCalls, Sandbox, ToolRunner, surroundings


class Tool(Protocol):
    """The part of a `ToolRunner` that a rollout uses."""

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        """Accept a call; its future always gets a result, never an exception. Returns at once."""
        ...

    def close_session(self, name: str) -> None:
        """End the interpreter of a session."""
        ...


class ToolOff(ToolRunner):
    """Replaces the sandbox in the control without tool: every call gets the same refusal."""

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        future: Future[ToolResult] = Future()
        error = ToolError(type="Unavailable", message="the tool is not available", traceback="")
        future.set_result(ToolResult(id=call.id, status=Status.ERROR, error=error))
        return future

    def close_session(self, name: str) -> None:
        """Nothing to close."""

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def open_tool(
    sandbox: SandboxSection,
    runtime: RuntimeSection,
    control: Control = Control.NONE,
    own: str | None = None,
) -> Iterator[ToolRunner]:
    """The sandbox, or its replacement for the control without tool. The sandbox also loads a user's tool."""
    if control is Control.TOOL_OFF:
        yield ToolOff()
        return
    preload, path = tuple(sandbox.preload), ()
    if own is not None:
        preload, path = (*preload, own), (os.getcwd(),)
    with Sandbox(workers=runtime.sandbox_workers, preload=preload, python_path=path) as client:
        tool = _repeatable(client, runtime, preload, own) if runtime.deterministic else client
        # A user's tool may be impure; and a pure program may still order types by address.
        if own is not None or not client.has_fixed_addresses:
            yield tool
            return
        record = CallRecord(runtime.folder.equal_calls, is_durable=False) if runtime.deterministic else None
        yield EqualCalls(tool, record, surroundings(preload))


def _repeatable(
    client: Sandbox, runtime: RuntimeSection, preload: tuple[str, ...], own: str | None
) -> NearLimitCalls:
    """Repeat the result of calls near their time limit, which the clock decides, in the whole run, also resumed."""
    around = surroundings(preload)
    if own is not None:
        module = inspect.getsourcefile(importlib.import_module(own))
        around += hashlib.sha256(Path(module).read_bytes()).hexdigest() if module else ""
    return NearLimitCalls(client, runtime.folder.near_limit_calls, around)


def limits_of(sandbox: SandboxSection) -> Limits:
    """The configured limits of one call."""
    return Limits(
        wall_s=sandbox.wall_s,
        cpu_s=sandbox.cpu_s,
        memory_bytes=sandbox.memory_mib * 2**20,
        output_bytes=sandbox.output_bytes,
    )
