"""`CallRecord`: results of tool calls that equal calls of the same run receive, in a file that its jobs share."""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

from records.errors import UserError
from records.tool_call import ToolResult

_LINE = re.compile(rb'\{"digest": "([^"]+)", "result": \{.*\}\}$')


class CallRecord:
    """The append-only file of recorded results: one JSON line each, parsed when its digest is requested.

    Several processes of a run may share it. The next writer removes a line that a killed process left incomplete.
    The first record of a digest counts.

    Args:
        file: created with the first entry.
        is_durable: whether a record must survive a loss of power, as one whose call may end otherwise the next time.

    Raises:
        UserError: the file cannot be read or written, or a whole line of it is no record.
    """

    def __init__(self, file: Path, *, is_durable: bool = True) -> None:
        self._file, self._is_durable = file, is_durable
        self._lock = threading.Lock()
        self._descriptor = -1
        self._num_read_bytes = 0
        self._found: dict[str, bytes] = {}
        """Digest -> line."""
        if file.exists():  # a record that cannot be used is refused before the first call
            self._open()
            self._read_on()

    def find(self, digest: str) -> ToolResult | None:
        """Return the recorded result with an empty id; None when there is no record."""
        with self._lock:
            if self._descriptor < 0 and self._file.exists():
                self._open()
            if self._descriptor >= 0:
                self._read_on()
            return self._parsed(digest)

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
                return self._parsed(digest) or result
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
                f"cannot open {self._file}, a record of tool calls: {error.strerror}; make its folder writable"
            ) from error

    def _append(self, digest: str, result: ToolResult) -> None:
        """Append under a lock: no other process writes, so bytes after the last newline are an incomplete line."""
        os.ftruncate(self._descriptor, self._num_read_bytes)
        line = json.dumps({"digest": digest, "result": result.to_json()}).encode() + b"\n"
        left = memoryview(line)
        while left:
            left = left[os.write(self._descriptor, left) :]
        if self._is_durable:
            os.fsync(self._descriptor)
        self._num_read_bytes += len(line)
        self._found[digest] = line

    def _read_on(self) -> None:
        """Read the whole lines that were appended since the last read."""
        size = os.fstat(self._descriptor).st_size
        if size <= self._num_read_bytes:
            return
        data = os.pread(self._descriptor, size - self._num_read_bytes, self._num_read_bytes)
        data = data[: data.rfind(b"\n") + 1]
        for line in data.splitlines():
            match = _LINE.match(line)
            if match is None:
                raise self._refusal("it names no call")
            self._found.setdefault(match[1].decode(), line)
        self._num_read_bytes += len(data)

    def _parsed(self, digest: str) -> ToolResult | None:
        line = self._found.get(digest)
        if line is None:
            return None
        try:
            return ToolResult.from_json(json.loads(line)["result"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._refusal(repr(error)) from error

    def _refusal(self, why: str) -> UserError:
        return UserError(
            f"{self._file} has a line that is no recorded call ({why}); remove that line, or the file: then its calls "
            "run again"
        )
