"""`Sandbox`: starts a supervisor process and sends it calls.

The calling process is usually busy with other work. Submitting a call costs one small encode and one send; one thread,
which sleeps in the kernel between batches, decodes results. The supervisor does all running, timing and killing, so
a caller that holds the interpreter lock for long delays only its own futures.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from records.tool_call import Status, ToolCall, ToolResult
from sandbox.client.connection import Link, ProcessLink, SandboxError
from sandbox.client.tool_runner import ToolRunner
from sandbox.layers import Layer, Level
from sandbox.settings import Settings
from sandbox.wire import (
    REJECTED_PREFIX,
    Kind,
    decode_result,
    encode_call,
    encode_result,
    fault_of,
    pack,
    refusal,
    refusal_when_withdrawn,
    retry_after_s,
)

RETRY_S = 0.2
RETRIED_AT_ONCE = 16
"""Kept calls sent at the end of each pause, even if no call has ended meanwhile."""
_KEPT = 0
"""The number of a call that waits in the client."""
_WITHDRAWN = encode_result(refusal_when_withdrawn())


class Caller(ToolRunner):
    """Calls in flight to one supervisor: numbers, futures, sessions, and the handling of its death.

    Every submitted call ends in exactly one `ToolResult`, even if the supervisor dies; the next call then opens
    another link. Safe to use from several threads.

    Args:
        waits_when_full: keep a call that a full queue refused, and send it again when there is room.
    """

    def __init__(self, *, waits_when_full: bool = False) -> None:
        self.waits_when_full = waits_when_full
        self.num_refusals = 0
        """Number of times that a full queue refused a call and the client kept it."""
        self._kept: deque[tuple[ToolCall, Future[ToolResult]]] = deque()
        self._send_again_t = 0.0
        self._lock = threading.Lock()
        self._number = 0
        self._pending: dict[int, tuple[ToolCall, Future[ToolResult]]] = {}
        self._number_of: dict[str, int] = {}
        self._withdrawn: set[int] = set()
        """Numbers of calls whose cancel is in flight: a full queue may refuse the call before it reads the cancel."""
        self._known_sessions: set[str] = set()
        self._lost_sessions: set[str] = set()
        self._replies: dict[int, Future[bytes]] = {}
        self._link: Link | None = None
        self._is_closed = False
        self.started: dict[str, Any] = {}
        """The supervisor's report at its start: level, layers, process ids."""

    def _new_link(self) -> Link:
        raise NotImplementedError

    # Calls

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        """Accept a call and return at once; the future always gets a result, never an exception."""
        future: Future[ToolResult] = Future()
        fault = fault_of(call)
        with self._lock:
            if self._is_closed:
                fault = "the sandbox is closed"
            elif not fault and call.id in self._number_of:
                fault = f"id {call.id!r} is already in flight; ids must be unique among calls in flight"
            if fault:
                future.set_result(refusal(Status.REJECTED, fault, str(call.id)))
                return future
            if call.session in self._lost_sessions:
                text = "session is gone: the supervisor died"
                future.set_result(refusal(Status.SESSION_LOST, text, call.id))
                return future
            try:
                link = self._link or self._start()
            except SandboxError as error:
                future.set_result(refusal(Status.LOST, str(error), call.id))
                return future
            if call.session is not None:
                self._known_sessions.add(call.session)
            if self._kept:  # earlier calls go first
                self._number_of[call.id] = _KEPT
                self._kept.append((call, future))
            else:
                self._send(link, call, future)
        return future

    def _send(self, link: Link, call: ToolCall, future: Future[ToolResult]) -> None:
        self._number += 1
        self._pending[self._number] = (call, future)
        self._number_of[call.id] = self._number
        link.send(pack(Kind.CALL, self._number, encode_call(call)))

    def cancel(self, call_id: str) -> None:
        """Withdraw a call: it ends as cancelled, unless it has already ended."""
        withdrawn: list[Future[ToolResult]] = []
        with self._lock:
            number = self._number_of.get(call_id)
            if number == _KEPT:
                withdrawn = [future for call, future in self._kept if call.id == call_id]
                self._kept = deque(entry for entry in self._kept if entry[0].id != call_id)
                del self._number_of[call_id]
            elif number is not None and self._link is not None:
                self._withdrawn.add(number)
                self._link.send(pack(Kind.CANCEL, number))
        for future in withdrawn:
            future.set_result(refusal_when_withdrawn(call_id))

    def close_session(self, name: str) -> None:
        """End a session; its name is then free for a new one."""
        with self._lock:
            self._known_sessions.discard(name)
            self._lost_sessions.discard(name)
            if self._link is not None:
                self._link.send(pack(Kind.CLOSE_SESSION, 0, name.encode("utf-8", "replace")))

    def status(self) -> dict[str, Any]:
        """Return figures of the supervisor: calls queued and running, sessions, process ids."""
        with self._lock:
            link = self._link or self._start()
            self._number += 1
            reply: Future[bytes] = Future()
            self._replies[self._number] = reply
            link.send(pack(Kind.STATUS, self._number))
        return json.loads(reply.result(timeout=30.0))

    def close(self) -> None:
        """End running calls as cancelled, stop the supervisor and remove its files."""
        with self._lock:
            self._is_closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close()
        with self._lock:
            failed = self._take_all()
        self._fail(failed, Status.CANCELLED, "the sandbox was closed")

    # The supervisor

    def _start(self) -> Link:
        try:
            link = self._new_link()
            self.started = link.handshake()
        except (OSError, ValueError) as error:  # ValueError: the reply is no frame, or no JSON
            raise SandboxError(f"the sandbox cannot start: {error}") from error
        self._link = link
        link.listen()
        return link

    def on_frames(self, frames: list[tuple[Kind, int, bytes]]) -> None:
        done: list[tuple[Future[ToolResult], ToolCall, bytes]] = []
        refused: list[tuple[ToolCall, Future[ToolResult]]] = []
        with self._lock:
            for kind, number, payload in frames:
                if kind is Kind.RESULT and number in self._pending:
                    call, future = self._pending.pop(number)
                    if number in self._withdrawn:
                        self._withdrawn.discard(number)
                        if payload.startswith(REJECTED_PREFIX):
                            payload = _WITHDRAWN
                    if (
                        self.waits_when_full
                        and payload.startswith(REJECTED_PREFIX)
                        and self._keep(call, payload)
                    ):
                        refused.append((call, future))
                        continue
                    self._number_of.pop(call.id, None)
                    done.append((future, call, payload))
                elif kind is Kind.STATUS and number in self._replies:
                    self._replies.pop(number).set_result(payload)
            self._kept.extendleft(reversed(refused))
            if self._kept:
                self._send_kept(len(done))
        for future, call, payload in done:  # outside the lock: a callback may submit
            future.set_result(decode_result(payload, call.id))

    def _keep(self, call: ToolCall, payload: bytes) -> bool:
        """Keep a refused call for another attempt, unless a later cell of its session is already in flight."""
        pause_s = retry_after_s(decode_result(payload, call.id))
        if pause_s is None:
            return False
        if call.session is not None and any(c.session == call.session for c, _ in self._pending.values()):
            return False
        self._number_of[call.id] = _KEPT
        self.num_refusals += 1
        self._send_again_t = time.monotonic() + pause_s
        return True

    def _send_kept(self, num_done: int) -> None:
        """Send as many kept calls as calls have ended; after a pause, send a few."""
        if time.monotonic() >= self._send_again_t:
            self._send_again_t = time.monotonic() + RETRY_S
            num_done += RETRIED_AT_ONCE
        while self._kept and num_done > 0 and self._link is not None:
            num_done -= 1
            self._send(self._link, *self._kept.popleft())

    def on_pause(self) -> float | None:
        """Send kept calls whose pause is over; return seconds until the next pause ends, None when no call is kept."""
        if not self._kept:
            return None
        with self._lock:
            self._send_kept(0)
            return max(0.001, self._send_again_t - time.monotonic()) if self._kept else None

    def on_death(self, link: Link) -> None:
        with self._lock:
            if self._link is not link:
                return
            self._link = None
            self._lost_sessions |= self._known_sessions
            self._known_sessions.clear()
            failed = self._take_all()  # before the lock is released: later calls go to the next supervisor
        link.reap()
        self._fail(failed, Status.LOST, "the supervisor died")

    def _take_all(self) -> _InFlight:
        """Remove and return everything that waits for a result; the caller holds the lock."""
        taken = _InFlight(list(self._pending.values()), list(self._kept), list(self._replies.values()))
        self._pending, self._kept, self._replies = {}, deque(), {}
        self._number_of.clear()
        self._withdrawn.clear()
        return taken

    @staticmethod
    def _fail(taken: _InFlight, status: Status, why: str) -> None:
        for call, future in taken.sent:
            future.set_result(refusal(status, why, call.id))
        for call, future in taken.kept:
            never = Status.REJECTED if status is Status.LOST else status
            future.set_result(refusal(never, f"{why}; this call never started", call.id))
        for reply in taken.replies:
            reply.set_exception(SandboxError(why))


class _InFlight(NamedTuple):
    """Items that wait for a result: calls sent, calls kept in the client, questions."""

    sent: list[tuple[ToolCall, Future[ToolResult]]]
    kept: list[tuple[ToolCall, Future[ToolResult]]]
    replies: list[Future[bytes]]


class Sandbox(Caller):
    """Runs Python code in isolated child processes of its own supervisor.

    Every submitted call ends in exactly one `ToolResult`, even if the supervisor dies; the next call then starts
    another supervisor. Safe to use from several threads.

    Args:
        workers: CPU cores that the sandbox may use.
        preload: modules that fork servers import beforehand, by name.
        queue_limit: calls that may wait; the supervisor refuses further ones. None: no limit.
        min_isolation: refuse to start below this level: none, limits, syscalls or files.
        niceness: priority steps of running code below the caller; 19 after 0.1 s.
        slots_per_worker: calls running at once per worker.
        affinity: CPU cores that all its processes may run on.
        waits_when_full: with a queue limit, the client keeps a refused call and sends it again; False: the caller
            gets the refusal, with the seconds to wait.
        deterministic: hide from the text shown what depends on clock and addresses.
        others: any further field of `sandbox.settings.Settings`.

    Raises:
        SandboxError: isolation below the minimum, a module that is not installed, no process.

    Example:
        with Sandbox(workers=2) as sandbox:
            result = sandbox.run(ToolCall(id="1", code="print(1 + 1)"))
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        preload: Sequence[str] = ("numpy", "sympy"),
        queue_limit: int | None = None,
        min_isolation: str = "files",
        niceness: int = 10,
        slots_per_worker: int = 4,
        affinity: Sequence[int] | None = None,
        deterministic: bool = True,
        waits_when_full: bool = True,
        **others: Any,
    ) -> None:
        if min_isolation not in list(Level):
            raise SandboxError(f"min_isolation is {min_isolation!r}; give one of {', '.join(Level)}")
        others["disabled_layers"] = tuple(Layer(name) for name in others.get("disabled_layers", ()))
        self.settings = Settings(
            workers=workers,
            preload=tuple(preload),
            queue_limit=queue_limit,
            min_isolation=Level(min_isolation),
            niceness=niceness,
            slots_per_worker=slots_per_worker,
            affinity=tuple(affinity) if affinity is not None else None,
            deterministic=deterministic,
            **others,
        )
        super().__init__(waits_when_full=waits_when_full)
        with self._lock:
            self._start()

    @property
    def has_fixed_addresses(self) -> bool:
        """Return whether all its interpreters map memory alike, so that equal programs see equal addresses."""
        used = {state["layer"] for state in self.started["states"] if state["used"]}
        return Layer.FIXED_ADDRESSES in used

    def _new_link(self) -> Link:
        return ProcessLink(self.settings, self)
