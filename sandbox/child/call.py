"""`Launch`: the life of one forked child, from its job to its outcome."""

from __future__ import annotations

import atexit
import fcntl
import io
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any

from records.tool_call import Limits
from sandbox.child import kernel, random_streams, runner
from sandbox.child.jail import Jail
from sandbox.layers import Layer
from sandbox.server.child_bytes import CELL_HEADER, SET_UP
from sandbox.wire import decode_call

JOB_FD = 3
"""For a stateless call: the encoded call first, the outcome last. For a session: the socket to the supervisor."""
SESSION_CPU_S = 24 * 3600.0
"""Limits all cells of a session together; each cell also has its own limit."""
_READ_BYTES = 1 << 16
_SPARES = ((1, JOB_FD + 1), (2, JOB_FD + 2))
"""Descriptors on which a session keeps copies of its standard output and error."""


def new_job_file() -> int:
    """Create a file in memory that `mark_set_up` can mark."""
    return os.memfd_create("job", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def mark_set_up() -> None:
    """Mark that the isolation of the child is complete, by a seal that nothing removes."""
    kernel.add_seals(JOB_FD, fcntl.F_SEAL_SEAL)


def is_set_up(job: int) -> bool:
    """Return whether code can have run. If the child ends before that, the sandbox is at fault."""
    return bool(fcntl.fcntl(job, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SEAL)


_no_input = io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")


class Launch:
    """What a fork server prepares for its children. All children use one object, so its memory stays the same."""

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
        """Run a stateless call, from the fork to the exit of the process."""
        _place(descriptors)
        _, limits, seed, code, stdin = decode_call(os.pread(JOB_FD, job_bytes, 0))
        _provide_stdin(stdin)
        self._enter(seat, limits, limits.cpu_s, JOB_FD + 1)
        random_streams.reseed(seed)
        mark_set_up()
        outcome = self._run(code, limits)
        os.ftruncate(JOB_FD, 0)
        os.lseek(JOB_FD, 0, os.SEEK_SET)
        _write_all(JOB_FD, json.dumps(outcome).encode())
        if at_end is not None:
            at_end()
        os._exit(0)

    def run_session(self, seat: int, descriptors: tuple[int, int, int]) -> None:
        """Run a persistent interpreter: execute one job after the other from the socket, until it closes."""
        _place(descriptors)
        for number, spare in _SPARES:
            os.dup2(number, spare)
        link = socket.socket(fileno=JOB_FD)
        namespace: dict[str, Any] = {}
        sys.stdin = _no_input
        num_cells = first_bytes = 0
        inbox = bytearray()
        while True:
            job = _receive_job(link, inbox)
            _, limits, seed, code, stdin = decode_call(job)
            if num_cells == 0:
                self._enter(seat, limits, SESSION_CPU_S, JOB_FD + 1 + len(_SPARES))
                random_streams.reseed(seed)
                namespace = runner.new_namespace()
                first_bytes = limits.memory_bytes
                link.sendall(SET_UP)
            num_cells += 1
            _provide_session_stdin(stdin)
            if limits.memory_bytes < first_bytes:
                self._hold_memory(limits.memory_bytes, first_bytes)
            outcome = self._run_cell(code, limits, f"<cell {num_cells}>", namespace)
            if limits.memory_bytes < first_bytes:
                self._hold_memory(first_bytes, first_bytes)
            text = json.dumps(outcome).encode()
            link.sendall(CELL_HEADER.pack(len(text)) + text)

    def _hold_memory(self, num_bytes: int, first_bytes: int) -> None:
        """Set the memory limit of a cell. The supervisor refuses a cell with a higher limit than the first one."""
        if Layer.RLIMITS in self.jail.plan.layers:
            base = self.jail.base_bytes
            resource.setrlimit(resource.RLIMIT_AS, (base + num_bytes, base + first_bytes))

    def _enter(self, seat: int, limits: Limits, cpu_s: float, keep_below: int) -> None:
        self.jail.enter(
            seat,
            cpu_s=cpu_s,
            memory_bytes=limits.memory_bytes,
            server_pid=self.server_pid,
            keep_below=keep_below,
        )

    def _run(self, code: bytes, limits: Limits) -> dict[str, Any]:
        deadline = self.deadline
        try:
            source = code.decode("utf-8", "surrogatepass")
            namespace = runner.new_namespace()
            deadline.start(cpu_s=limits.cpu_s, wall_s=limits.wall_s)
            outcome = runner.execute(source, runner.FILE_NAME, namespace, deadline, limits.output_bytes)
            outcome = runner.finish(outcome, deadline, self.num_exit_functions, namespace, source)
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
            _reopen_output()
            outcome = runner.execute(source, name, namespace, deadline, limits.output_bytes)
            runner.flush_streams()
            runner.flush_own_streams(namespace)
            deadline.stop()
            outcome = runner.hold_to_limit(outcome, deadline)
        except BaseException as error:
            outcome = runner.describe(error, deadline)
        return outcome


def _place(descriptors: tuple[int, int, int]) -> None:
    """Move the job to 3, standard output to 1 and standard error to 2. They arrive as 3, 4, 5 or higher."""
    job, out, err = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    if job != JOB_FD:
        os.dup2(job, JOB_FD)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all data. A write that meets the limit of the file size is short; the next one raises."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _reopen_output() -> None:
    """Reopen standard output and error, which an earlier cell may have closed or replaced."""
    try:
        for number, spare in _SPARES:
            os.dup2(spare, number)
    except OSError:  # the code has closed the copy as well
        pass
    if _is_closed(sys.stdout):
        if _is_closed(sys.__stdout__):
            sys.__stdout__ = runner.new_output(1)
        sys.stdout = sys.__stdout__
    if _is_closed(sys.stderr):
        if _is_closed(sys.__stderr__):
            sys.__stderr__ = runner.new_output(2)
        sys.stderr = sys.__stderr__


def _is_closed(stream: Any) -> bool:
    try:
        return stream is None or bool(stream.closed)
    except Exception:  # a stream that the code made may lack the attribute
        return False


def _provide_stdin(stdin: bytes) -> None:
    if not stdin:
        return
    descriptor = os.memfd_create("stdin")
    _write_all(descriptor, stdin)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, 0)


def _provide_session_stdin(stdin: bytes) -> None:
    """Provide the input of a cell as a stream in memory, since this process may not open a new descriptor."""
    if not stdin and sys.stdin is _no_input and not _no_input.closed:
        return
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8", errors="surrogateescape")


def _receive_job(link: socket.socket, inbox: bytearray) -> bytes:
    """Receive the next job; `inbox` keeps bytes that belong to the job after it."""
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
