"""`NearLimitCalls`: makes calls near a time limit end alike during a whole run.

A limit in seconds depends on the clock: a program that takes about as long as its limit is `ok` once and `timeout`
the next time, and the trajectory changes with it. Two rules make this rare and repeatable. First, a call that reaches
its CPU limit runs again, and is a `timeout` only if both runs reach it: other work on the machine makes a program
slower, never faster, so the faster of two runs varies less. Second, a result near the limit is recorded, before the
caller receives it, under a digest of everything that decides it; an equal call gets the recorded result.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from records.errors import UserError
from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox.client.call_record import CallRecord
from sandbox.client.client import Caller
from sandbox.client.purity import is_pure
from sandbox.client.tool_runner import ToolRunner
from sandbox.wire import refusal

NEAR_FRAC = 0.25
"""Fraction of a limit. On a busy machine the CPU time of one program varied by a factor of two; this allows four."""
_FORMAT = 2
_TICK_FRAC = 0.05
"""A run that the CPU limit ended may report slightly less CPU time itself."""


def is_near_limit(result: ToolResult, limits: Limits) -> bool:
    """Return whether the clock may have decided how the code ended.

    >>> is_near_limit(ToolResult(id="a", status=Status.OK, cpu_s=0.1), Limits(cpu_s=1.0))
    False
    >>> is_near_limit(ToolResult(id="a", status=Status.OK, cpu_s=0.3), Limits(cpu_s=1.0))
    True
    """
    if result.status.is_infrastructure:
        return False
    used = max(result.cpu_s / limits.cpu_s, result.wall_s / limits.wall_s)
    return result.status is Status.TIMEOUT or used >= NEAR_FRAC


def reached_cpu_limit(result: ToolResult, limits: Limits) -> bool:
    """Return whether the CPU limit, and not the wall limit, ended the code.

    >>> late = ToolResult(id="a", status=Status.TIMEOUT, cpu_s=1.0)
    >>> reached_cpu_limit(late, Limits(cpu_s=1.0, wall_s=10.0)), reached_cpu_limit(late, Limits(cpu_s=2.0, wall_s=10.0))
    (True, False)
    """
    return result.status is Status.TIMEOUT and result.cpu_s >= (1 - _TICK_FRAC) * limits.cpu_s


def surroundings(preload: Sequence[str]) -> str:
    """Return what else decides a result: the interpreter, and the preloaded packages with their versions."""
    return json.dumps([_FORMAT, sys.version, [(name, _version_of(name)) for name in preload]])


def _version_of(module: str) -> str:
    try:
        return importlib.metadata.version(module.partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return ""


def digest_of(call: ToolCall, around: str) -> str:
    """Return a digest of what decides the result of a call; it includes the seed only if the program may draw."""
    limits = call.limits
    fields: list[Any] = [around, call.code, call.stdin, limits.wall_s, limits.cpu_s, limits.memory_bytes]
    fields += [limits.output_bytes, None if is_pure(call.code) else call.seed]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


class NearLimitCalls(ToolRunner):
    """Passes calls on; equal calls near a time limit get equal results.

    Stateless calls only: a cell that meets its limit leaves its interpreter in a state that no record can repeat.

    Args:
        tool: where calls run.
        file: the record; created with the first entry.
        around: what decides a result besides the call (`surroundings`).
    """

    def __init__(self, tool: Caller, file: Path, around: str) -> None:
        self._tool = tool
        self._around = around
        self._record = CallRecord(file)

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        if call.session is not None:
            return self._tool.submit(call)
        own: Future[ToolResult] = Future()
        known = None if self._record.is_empty else self._record.find(digest_of(call, self._around))
        if known is not None:
            own.set_result(replace(known, id=call.id))
        else:
            self._tool.submit(call).add_done_callback(partial(self._try_again, call, own))
        return own

    def _try_again(self, call: ToolCall, own: Future[ToolResult], done: Future[ToolResult]) -> None:
        """Run a call that reached its CPU limit a second time; answer every other one."""
        if reached_cpu_limit(done.result(), call.limits):
            self._tool.submit(call).add_done_callback(partial(self._answer, call, own))
        else:
            self._answer(call, own, done)

    def _answer(self, call: ToolCall, own: Future[ToolResult], done: Future[ToolResult]) -> None:
        result = done.result()
        if is_near_limit(result, call.limits):
            try:
                kept = self._record.keep(digest_of(call, self._around), result)
                result = replace(kept, id=call.id, queue_s=result.queue_s)
            except (OSError, UserError) as error:  # a result that cannot be repeated must not be used
                result = refusal(Status.LOST, f"its result could not be recorded: {error}", call.id)
        own.set_result(result)

    def close_session(self, name: str) -> None:
        """End a session of the wrapped tool."""
        self._tool.close_session(name)

    def close(self) -> None:
        self._tool.close()
        self._record.close()
