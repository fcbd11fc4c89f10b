"""The life of one forked child: take the job, lock the door, run, leave the outcome, exit."""

from __future__ import annotations

import atexit
import io
import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from sandbox import runner, streams
from sandbox.jail import Jail
from sandbox.records import Limits
from sandbox.wire import decode_call

JOB_FD = 3
"""Holds the encoded call at first and the outcome at last; of a session, the socket to the supervisor."""
CELL_HEADER = struct.Struct("<I")
SESSION_CPU_S = 24 * 3600.0
"""Backstop over all cells of a session; each cell has its own limit."""
_READ_BYTES = 1 << 16


_no_input = io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")


class Launch:
    """What the fork server knows about a child it starts. One object, reused, so that its memory stays the same."""

    def __init__(self, jail: Jail, deadline: runner.Deadline) -> None:
        self.jail = jail
        self.deadline = deadline
        self.server_pid = os.getpid()
        self.num_exit_functions = atexit._ncallbacks()  # type: ignore[attr-defined]

    def run_call(
        self,
        seat: int,
        job_bytes: int,
        descriptors: tuple[int, int, int],
        at_end: Callable[[], None] | None = None,
    ) -> None:
        """A stateless call, from the fork to the exit of the process."""
        _place(descriptors)
        _, limits, seed, code, stdin = decode_call(os.pread(JOB_FD, job_bytes, 0))
        _provide_stdin(stdin)
        self._enter(seat, limits, limits.cpu_s)
        streams.reseed(seed)
        outcome = self._run(code, limits)
        text = json.dumps(outcome).encode()
        os.ftruncate(JOB_FD, 0)
        os.pwrite(JOB_FD, text, 0)
        if at_end is not None:
            at_end()
        os._exit(0)

    def run_session(self, seat: int, descriptors: tuple[int, int, int]) -> None:
        """A persistent interpreter: one job after the other from the socket, until it closes."""
        _place(descriptors)
        link = socket.socket(fileno=JOB_FD)
        namespace: dict[str, Any] = {}
        sys.stdin = _no_input
        num_cells = 0
        inbox = bytearray()
        while True:
            job = _receive_job(link, inbox)
            _, limits, seed, code, stdin = decode_call(job)
            if num_cells == 0:
                self._enter(seat, limits, SESSION_CPU_S)
                streams.reseed(seed)
                namespace = runner.new_namespace()
            num_cells += 1
            _provide_session_stdin(stdin)
            outcome = self._run_cell(code, limits, f"<cell {num_cells}>", namespace)
            text = json.dumps(outcome).encode()
            link.sendall(CELL_HEADER.pack(len(text)) + text)

    def _enter(self, seat: int, limits: Limits, cpu_s: float) -> None:
        self.jail.enter(
            seat,
            cpu_s=cpu_s,
            memory_bytes=limits.memory_bytes,
            server_pid=self.server_pid,
            keep_below=JOB_FD + 1,
        )

    def _run(self, code: bytes, limits: Limits) -> dict[str, Any]:
        deadline = self.deadline
        try:
            source = code.decode("utf-8", "surrogatepass")
            namespace = runner.new_namespace()
            deadline.start(cpu_s=limits.cpu_s, wall_s=limits.wall_s)
            outcome = runner.execute(source, runner.FILE_NAME, namespace, deadline, limits.output_bytes)
            outcome = runner.finish(outcome, deadline, self.num_exit_functions)
            runner.flush_streams()
            deadline.stop()
            outcome = runner.hold_to_limit(outcome, deadline)
        except BaseException as error:
            outcome = runner.describe(error, deadline)
        return outcome

    def _run_cell(self, code: bytes, limits: Limits, name: str, namespace: dict[str, Any]) -> dict[str, Any]:
        deadline = self.deadline
        try:
            source = code.decode("utf-8", "surrogatepass")
            deadline.start(cpu_s=limits.cpu_s, wall_s=limits.wall_s)
            outcome = runner.execute(source, name, namespace, deadline, limits.output_bytes)
            runner.flush_streams()
            deadline.stop()
            outcome = runner.hold_to_limit(outcome, deadline)
        except BaseException as error:
            outcome = runner.describe(error, deadline)
        return outcome


def _place(descriptors: tuple[int, int, int]) -> None:
    """Job on 3, standard output on 1, standard error on 2. They arrive as 3, 4, 5 or higher."""
    job, out, err = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    if job != JOB_FD:
        os.dup2(job, JOB_FD)


def _provide_stdin(stdin: bytes) -> None:
    if not stdin:
        return
    descriptor = os.memfd_create("stdin")
    os.write(descriptor, stdin)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, 0)


def _provide_session_stdin(stdin: bytes) -> None:
    """A cell's input is a stream in memory: by then no new descriptors may be made."""
    if not stdin and sys.stdin is _no_input and not _no_input.closed:
        return
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8", errors="surrogateescape")


def _receive_job(link: socket.socket, inbox: bytearray) -> bytes:
    """The next job; `inbox` keeps what came with it of the one after."""
    while (end := _end_of_job(inbox)) > len(inbox):
        data = link.recv(_READ_BYTES)
        if not data:
            os._exit(0)
        inbox += data
    job = bytes(inbox[CELL_HEADER.size : end])
    del inbox[:end]
    return job


def _end_of_job(inbox: bytearray) -> int:
    if len(inbox) < CELL_HEADER.size:
        return CELL_HEADER.size
    return CELL_HEADER.size + CELL_HEADER.unpack_from(inbox)[0]
