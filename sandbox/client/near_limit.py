"""`NearLimitCalls`: makes calls near a time limit end alike during a whole run.

A limit in seconds depends on the clock: a program that takes about as long as its limit is `ok` once and `timeout`
the next time, and the trajectory changes with it. Two rules make this rare and repeatable. First, a call that reaches
its CPU limit runs again, and is a `timeout` only if both runs reach it: other work on the machine makes a program
slower, never faster, so the faster of two runs varies less. Second, a result near the limit is recorded, before the
caller receives it, under a digest of everything that decides it; an equal call gets the recorded result.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from records.errors import UserError
from records.tool_call import Limits, Status, ToolCall, ToolResult
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


class CallRecord:
    """The append-only file of recorded results: one JSON line each.

    Several processes of a run may share it. The next writer removes a line that a killed process left incomplete.
    The first record of a digest counts.

    Raises:
        UserError: the file cannot be read or written, or a whole line of it is no record.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._descriptor = -1
        self._num_read_bytes = 0
        self._found: dict[str, ToolResult] = {}
        if file.exists():
            self._open()
            self._read_on()

    def find(self, digest: str) -> ToolResult | None:
        """Return the recorded result with an empty id; None when there is no record."""
        with self._lock:
            if self._descriptor >= 0:
                self._read_on()
            return self._found.get(digest)

    @property
    def is_empty(self) -> bool:
        return self._descriptor < 0

    def keep(self, digest: str, result: ToolResult) -> ToolResult:
        """Record a result, unless an earlier record exists; return the one that counts."""
        with self._lock:
            self._open()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._read_on()
                if digest not in self._found:
                    self._append(digest, replace(result, id="", queue_s=0.0))
                return self._found[digest]
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        if self._descriptor >= 0:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._file, flags, 0o644)
        except OSError as error:
            raise UserError(
                f"cannot open {self._file}, the record of calls near their limit: {error.strerror}; make its folder "
                "writable"
            ) from error

    def _append(self, digest: str, result: ToolResult) -> None:
        """Append under a lock: no other process writes, so bytes after the last newline are an incomplete line."""
        os.ftruncate(self._descriptor, self._num_read_bytes)
        line = json.dumps({"digest": digest, "result": result.to_json()}).encode() + b"\n"
        left = memoryview(line)
        while left:
            left = left[os.write(self._descriptor, left) :]
        os.fsync(self._descriptor)
        self._num_read_bytes += len(line)
        self._found[digest] = result

    def _read_on(self) -> None:
        """Read the whole lines that were appended since the last read."""
        size = os.fstat(self._descriptor).st_size
        if size <= self._num_read_bytes:
            return
        data = os.pread(self._descriptor, size - self._num_read_bytes, self._num_read_bytes)
        data = data[: data.rfind(b"\n") + 1]
        for line in data.split(b"\n")[:-1]:
            try:
                record = json.loads(line)
                digest, result = str(record["digest"]), ToolResult.from_json(record["result"])
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UserError(
                    f"{self._file} has a line that is no recorded call ({error!r}); remove that line, or the file: "
                    "then calls near their limit are decided again"
                ) from error
            self._found.setdefault(digest, result)
        self._num_read_bytes += len(data)


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
