"""`Connection`, `Pending`, `Run`, `Session`: the state of a supervisor."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from records.tool_call import Limits, Status
from sandbox.child import kernel
from sandbox.child.call import is_set_up
from sandbox.server.child_bytes import CellInbox
from sandbox.server.fork_servers import Server
from sandbox.server.outcome import Ending
from sandbox.wire import FrameReader, take_batch

_serials = itertools.count(1)
READ_BYTES = 1 << 17


@dataclass(eq=False, slots=True)
class Connection:
    """One client."""

    link: socket.socket
    reader: FrameReader = field(default_factory=FrameReader)
    outbox: deque[bytes] = field(default_factory=deque)
    is_open: bool = True
    waits_to_send: bool = False
    serial: int = field(default_factory=lambda: next(_serials))

    def flush(self) -> bool:
        """Send as many frames as the socket accepts; return True when none is left."""
        while self.outbox:
            data = take_batch(self.outbox)
            try:
                num_sent = self.link.send(data)
            except BlockingIOError:
                num_sent = 0
            if num_sent < len(data):
                self.outbox.appendleft(data[num_sent:])
                return False
        return True


@dataclass(slots=True, eq=False)
class Pending:
    """An accepted call that has not started."""

    connection: Connection
    number: int
    session: str | None
    limits: Limits
    payload: bytes
    tier: int
    accepted_t: float
    num_failed_starts: int = 0
    """Processes that ended before any of the call's code ran."""


class Guard:
    """Passes a fault of the block to `on_fault`, which returns whether the supervisor continues.

    It is a class because each call enters several, and a generator takes five times as long.
    """

    __slots__ = ("_on_fault", "_pendings")

    def __init__(
        self, on_fault: Callable[[Exception, tuple[Pending, ...]], bool], pendings: tuple[Pending, ...]
    ) -> None:
        self._on_fault = on_fault
        self._pendings = pendings

    def __enter__(self) -> None:
        """Do nothing: there is no state to prepare."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, Exception) and self._on_fault(error, self._pendings)


@dataclass(slots=True, eq=False, kw_only=True)
class Run:
    """A call that runs."""

    pending: Pending
    seat: int
    server: Server
    files: tuple[int, int, int] = (-1, -1, -1)
    """Job and outcome, standard output, standard error."""
    inbox: CellInbox | None = None
    """Bytes that its session has sent; None for a stateless call."""
    start_t: float
    begun_t: float | None = None
    """Time at which its child was seen isolated: its wall time counts from then."""
    is_given_up: bool = False
    """The supervisor kills the child because it was not set up in time."""
    base_cpu_s: float = 0.0
    """CPU seconds that the interpreter had used before: not 0 in a session."""
    verdict: Status | None = None
    """Set when the supervisor ends the run for a reason of its own."""
    is_killed: bool = False
    """The kill is in flight: later output of the child is ignored."""
    limit_hit: str = ""
    is_announced: bool = False
    is_decayed: bool = False
    is_idle: bool = False
    is_over: bool = False
    due_t: float = math.inf
    """Time at which its one timer fires."""

    def is_set_up(self) -> bool:
        """Return whether its code can have run."""
        if self.is_given_up:
            return False
        return is_set_up(self.files[0]) if self.inbox is None else self.inbox.is_set_up

    def ending(self, exit_code: int, cpu_s: float, rss_bytes: int) -> Ending:
        """Return the facts about its end, now."""
        return Ending(
            exit_code=exit_code,
            limit_hit=self.limit_hit,
            wall_s=time.monotonic() - self.start_t,
            cpu_s=cpu_s,
            queue_s=self.start_t - self.pending.accepted_t,
            max_rss_bytes=rss_bytes,
        )


class Session:
    """One persistent interpreter, or the record of a lost one."""

    def __init__(self, key: tuple[int, str], seat: int, server: Server) -> None:
        self.key = key
        self.seat = seat
        self.server = server
        self.link, self._other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.link.setblocking(False)
        self.out, self.err = os.memfd_create("out"), os.memfd_create("err")
        for descriptor in (self.out, self.err):
            append_only(descriptor)
        self.is_live = True
        self.is_cut = False
        """Its connection is shut down and it is being killed: it accepts no more jobs."""
        self.why_lost = ""
        self.is_blamed = False
        """Its own code caused the loss."""
        self.memory_bytes = 0
        """The limit of its first cell, which no later cell may exceed."""
        self.run: Run | None = None
        self.waiting: deque[Pending] = deque()
        self.pid = 0
        self.last_used_t = time.monotonic()
        self.inbox = CellInbox()
        self._unsent = b""
        self._cpu_s = 0.0

    def child_descriptors(self) -> tuple[int, int, int]:
        """Return the descriptors for the interpreter."""
        return self._other_end.fileno(), self.out, self.err

    def on_started(self, pid: int) -> None:
        self.pid = pid
        self._other_end.close()

    def cpu_s_now(self) -> float:
        """Return the CPU seconds of the interpreter; for one that has just died, those up to its last cell."""
        if self.pid:
            with contextlib.suppress(OSError):
                return time.clock_gettime(kernel.cpu_clock_of(self.pid))
        return self._cpu_s

    def idle_cpu_s(self) -> float:
        """Return the CPU seconds used since its last cell ended, by threads that the cells left behind."""
        return self.cpu_s_now() - self._cpu_s

    def lose(self, why: str, *, is_blamed: bool) -> None:
        """Record why it is lost, and whether its own code caused it. The first reason counts."""
        if not self.why_lost:
            self.why_lost, self.is_blamed = why, is_blamed

    def begin(self, pending: Pending, now: float) -> Run:
        """Start a cell on an idle session."""
        self.run = Run(
            pending=pending,
            seat=self.seat,
            server=self.server,
            inbox=self.inbox,
            start_t=now,
            base_cpu_s=self.cpu_s_now(),
        )
        self.last_used_t = now
        for descriptor in (self.out, self.err):
            if os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, 0)
        return self.run

    def send(self, data: bytes) -> bool:
        """Send a job; return True when part of it waits for the socket."""
        self._unsent += data
        return not self.flush()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def flush(self) -> bool:
        """Send waiting bytes; return True when none is left."""
        while self._unsent:
            try:
                self._unsent = self._unsent[self.link.send(self._unsent) :]
            except BlockingIOError:
                return False
            except OSError:
                self._unsent = b""
        return True

    @property
    def is_set_up(self) -> bool:
        """Return whether its interpreter is isolated. If it ends before that, the sandbox is at fault."""
        return self.inbox.is_set_up

    def is_over_full(self) -> bool:
        """Return whether it sends more than an outcome of its cell can be."""
        return self.inbox.is_over_full(None if self.run is None else self.run.pending.limits)

    def drain(self) -> None:
        """Read what a dead interpreter had sent."""
        with contextlib.suppress(OSError):
            while not self.is_over_full() and (data := self.link.recv(1 << 18)):
                self.inbox.add(data)

    def finish(self, used_s: float) -> None:
        """Record the end of the cell."""
        self.run = None
        self._cpu_s = used_s
        self.last_used_t = time.monotonic()

    def retire(self) -> None:
        """Record the end of the interpreter."""
        self.is_live = False
        self.run = None
        self.link.close()
        self._other_end.close()
        os.close(self.out)
        os.close(self.err)


def append_only(descriptor: int) -> None:
    """Make every write append to the file."""
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
