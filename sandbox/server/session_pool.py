"""`SessionPool`: the persistent interpreters of one supervisor."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from typing import Protocol

from records.tool_call import Status, ToolError, ToolResult
from sandbox.child.fork_server import Op
from sandbox.server import fork_servers, outcome, preload_tiers
from sandbox.server.child_bytes import CELL_HEADER, Outcome, parse_outcome
from sandbox.server.failed_starts import lost_at_start, why_not_set_up
from sandbox.server.seats import Seats
from sandbox.server.supervisor_state import READ_BYTES, Connection, Pending, Run, Session
from sandbox.server.time_limits import Watch
from sandbox.settings import Settings
from sandbox.wire import refusal, refusal_when_withdrawn

IDLE_CPU_S = 0.5
"""CPU seconds a session may use between two cells; one whose threads sleep uses almost none."""


class Desk(Protocol):
    """The part of the supervisor that sessions use: it queues and answers calls."""

    settings: Settings
    tiers: preload_tiers.Tiers
    poller: select.epoll
    queue: deque[Pending]
    runs: dict[int, Run]
    watch: Watch
    seats: Seats

    def answer(self, pending: Pending, result: ToolResult) -> None: ...

    def server_for(self, tier: int) -> fork_servers.Server | None: ...

    def judge(
        self, record: Outcome | None, out: int, err: int, ending: outcome.Ending, run: Run
    ) -> ToolResult: ...


class SessionPool:
    """Sessions by name, by seat and by socket."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.by_link: dict[int, Session] = {}
        self._by_name: dict[tuple[int, str], Session] = {}
        self._by_seat: dict[int, Session] = {}
        self._seatless: deque[Pending] = deque()

    @property
    def num_live(self) -> int:
        return len(self._by_seat)

    # Cells

    def start_cell(self, pending: Pending, now: float) -> None:
        """Run a cell, or queue it behind the running one."""
        assert pending.session is not None
        key = (pending.connection.serial, pending.session)
        session = self._by_name.get(key)
        if session is not None and (session.why_lost or not session.is_live):
            self.desk.answer(pending, _refusal_of(session))
            return
        if session is not None and pending.limits.memory_bytes > session.memory_bytes:
            text = (
                f"limits.memory_bytes is {pending.limits.memory_bytes}; this session began with "
                f"{session.memory_bytes}, and none of its cells may have more"
            )
            self.desk.answer(pending, refusal(Status.REJECTED, text))
            return
        session = session or self._new_session(key, pending)
        if session is None:
            return
        if session.run is not None or session.is_cut:
            session.waiting.append(pending)
            return
        run = session.begin(pending, now)
        self.desk.runs[session.seat] = run
        if session.send(CELL_HEADER.pack(len(pending.payload)) + pending.payload):
            self.desk.poller.modify(session.link.fileno(), select.EPOLLIN | select.EPOLLOUT)
        self.desk.watch.start(run, now)

    def _new_session(self, key: tuple[int, str], pending: Pending) -> Session | None:
        desk = self.desk
        if not desk.seats.for_sessions:
            if len(self._seatless) >= len(self._by_seat) or not self._evict(
                "room for another session was needed"
            ):
                text = (
                    f"all {desk.settings.max_sessions} sessions are busy; retry later or raise max_sessions"
                )
                desk.answer(pending, refusal(Status.REJECTED, text))
            else:
                self._seatless.append(pending)
            return None
        server = desk.server_for(desk.tiers.last)
        if server is None:
            desk.answer(pending, refusal(Status.LOST, "no fork server is alive"))
            return None
        seat = desk.seats.for_sessions.pop()
        try:
            desk.seats.folders.make(seat)
            session = Session(key, seat, server)
        except OSError as error:  # no room, or no free descriptors
            desk.seats.for_sessions.append(seat)
            desk.answer(pending, refusal(Status.LOST, f"no interpreter could be started: {error}"))
            return None
        session.memory_bytes = pending.limits.memory_bytes
        self._by_name[key] = self._by_seat[seat] = session
        self.by_link[session.link.fileno()] = session
        desk.poller.register(session.link.fileno(), select.EPOLLIN)
        server.seats.add(seat)
        server.ask(Op.SESSION, seat, descriptors=session.child_descriptors())
        return session

    def on_started(self, seat: int, pid: int) -> None:
        """Record that the fork server has started the interpreter."""
        if seat in self._by_seat:
            self._by_seat[seat].on_started(pid)

    def on_readable(self, session: Session) -> None:
        """Read from the interpreter, or send more to it."""
        try:
            if session.has_unsent and session.flush():
                self.desk.poller.modify(session.link.fileno(), select.EPOLLIN)
            data = session.link.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # it has ended, which the fork server reports, or its code has closed the channel
            self._forget_link(session)
            session.is_cut = True
            session.server.ask(Op.KILL, session.seat)
            return
        session.inbox.add(data)
        if session.run is None or session.is_over_full():
            self._kill(session, "its code wrote on the channel of the results", is_blamed=True)
            return
        text = session.inbox.take()
        if text is not None:
            self._conclude(session, session.run, text)

    def _conclude(self, session: Session, run: Run, text: bytes) -> None:
        desk = self.desk
        run.is_over = True
        desk.runs.pop(session.seat, None)
        used_s = session.cpu_s_now()
        ending = run.ending(0, max(0.0, used_s - run.base_cpu_s), 0)
        result = desk.judge(parse_outcome(text), session.out, session.err, ending, run)
        session.finish(used_s)
        if run.verdict is not None:
            result = refusal(run.verdict, "cancelled")
        desk.answer(run.pending, result)
        if run.is_killed:  # the outcome arrived before the kill took effect
            session.lose(f"its last cell ended as {result.status}", is_blamed=run.verdict is None)
        elif result.status in (Status.OUTPUT_LIMIT, Status.CRASH):
            self._kill(session, f"its last cell ended as {result.status}", is_blamed=True)
        elif session.waiting and not session.why_lost:
            desk.queue.appendleft(session.waiting.popleft())

    # Ends

    def on_exit(
        self, seat: int, run: Run | None, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        """Handle the end of the interpreter of a seat; the fork server has reaped it."""
        session = self._by_seat.get(seat)
        if session is not None and run is not None:
            session.drain()
            text = session.inbox.take()
            if text is not None and run.verdict is None and not run.limit_hit:
                self._conclude(session, run, text)
            elif pid > 0 and _can_start_again(session, run):
                self._start_again(session, run, why_not_set_up(session.err))
            else:
                self._conclude_dead(session, run, pid, status, cpu_s, rss_bytes)
        if session is not None and session.is_set_up and pid > 0:
            how = outcome.how_it_died(os.waitstatus_to_exitcode(status))
            session.lose(f"its interpreter died between two cells ({how})", is_blamed=True)
        self._retire(seat, "its interpreter could not be set up")

    def _conclude_dead(
        self, session: Session, run: Run, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        run.is_over = True
        if run.verdict is not None or pid <= 0:
            why = "cancelled" if run.verdict else "no process could be started"
            session.lose(f"its last cell was {why}" if run.verdict else why, is_blamed=False)
            self.desk.answer(run.pending, refusal(run.verdict or Status.LOST, why))
            return
        if session.why_lost and not session.is_blamed:  # its caller closed it, not its code
            self.desk.answer(run.pending, _refusal_of(session))
            return
        code = os.waitstatus_to_exitcode(status)
        ending = run.ending(code or 1, max(0.0, cpu_s - run.base_cpu_s), rss_bytes)
        result = self.desk.judge(None, session.out, session.err, ending, run)
        session.lose(f"its last cell ended as {result.status}", is_blamed=True)
        self.desk.answer(run.pending, result)

    def _start_again(self, session: Session, run: Run, why: str) -> None:
        """Give the cell, and those behind it, another interpreter under the same name: no code has run."""
        run.is_over = True
        if (lost := lost_at_start(run.pending, why)) is not None:
            session.lose("its interpreter could not be set up", is_blamed=False)
            self.desk.answer(run.pending, lost)
            return
        self._by_name.pop(session.key, None)
        self.desk.queue.extendleft([*reversed(session.waiting), run.pending])
        session.waiting.clear()

    def on_server_death(self, seat: int, run: Run | None) -> None:
        """Handle the death of the fork server of a seat; the interpreter dies with it."""
        why = "its fork server died"
        session = self._by_seat.get(seat)
        if session is not None:
            session.drain()
            session.inbox.take()  # drops the unread mark of the set-up
        if session is not None and run is not None and _can_start_again(session, run):
            self._start_again(session, run, why)
        elif run is not None:
            run.is_over = True
            self.desk.answer(run.pending, refusal(run.verdict or Status.LOST, why))
        self._retire(seat, why)

    def _retire(self, seat: int, why: str) -> None:
        """Mark a session as gone and free its seat; the next call that names it gets an error."""
        session = self._by_seat.pop(seat, None)
        if session is not None:
            self._forget_link(session)
            session.lose(why, is_blamed=False)
            session.retire()
            for pending in session.waiting:
                self.desk.answer(pending, _refusal_of(session))
            session.waiting.clear()
        self.desk.seats.release(seat)
        self.seat_waiting()

    def seat_waiting(self) -> None:
        """Queue as many waiting cells as seats are free."""
        for _ in range(min(len(self._seatless), len(self.desk.seats.for_sessions))):
            self.desk.queue.appendleft(self._seatless.popleft())

    def _forget_link(self, session: Session) -> None:
        descriptor = session.link.fileno()
        if self.by_link.pop(descriptor, None) is not None:
            self.desk.poller.unregister(descriptor)

    def close(self, connection: Connection, name: str) -> None:
        """Close a session for its client; the name is free at once, for another interpreter."""
        session = self._by_name.pop((connection.serial, name), None)
        if session is not None and session.is_live:
            session.lose("it was closed", is_blamed=False)
            session.server.ask(Op.KILL, session.seat)

    def cancel_waiting(self, connection: Connection, number: int) -> None:
        """Withdraw a cell that waits behind another, or for a seat."""
        for queue in (self._seatless, *(session.waiting for session in self._by_seat.values())):
            for pending in queue:
                if pending.connection is connection and pending.number == number:
                    queue.remove(pending)
                    self.desk.answer(pending, refusal_when_withdrawn())
                    return

    def drop_client(self, connection: Connection) -> None:
        """End the sessions of a client that has disconnected."""
        for serial, name in list(self._by_name):
            if serial == connection.serial:
                self.close(connection, name)
        self._seatless = deque(pending for pending in self._seatless if pending.connection is not connection)

    # Eviction

    def _idle(self) -> list[Session]:
        return [session for session in self._by_seat.values() if session.run is None and not session.why_lost]

    def _evict(self, why: str) -> bool:
        """Kill the session that has been idle longest; return False when none is idle."""
        idle = self._idle()
        if idle:
            self._kill(min(idle, key=lambda session: session.last_used_t), why, is_blamed=False)
        return bool(idle)

    def _kill(self, session: Session, why: str, *, is_blamed: bool) -> None:
        session.lose(why, is_blamed=is_blamed)
        session.server.ask(Op.KILL, session.seat)

    def evict_for_memory(self) -> bool:
        """Evict one idle session to free memory; return False when none is idle."""
        return self._evict("memory ran low")

    def evict_idle(self) -> None:
        """Evict sessions that have been idle too long."""
        oldest = time.monotonic() - self.desk.settings.session_idle_s
        for session in self._idle():
            if session.last_used_t < oldest:
                self._kill(session, "it was idle for too long", is_blamed=False)

    def end_busy(self) -> None:
        """End sessions whose threads keep working between two cells, where no limit of a cell applies."""
        for session in self._idle():
            if session.idle_cpu_s() > IDLE_CPU_S:
                why = f"its threads used over {IDLE_CPU_S:g} s of CPU between two cells"
                self._kill(session, why, is_blamed=True)


def _can_start_again(session: Session, run: Run) -> bool:
    """Return whether no code of a session has run, and its caller still awaits the cell."""
    return run.verdict is None and not session.why_lost and not run.is_set_up()


def _refusal_of(session: Session) -> ToolResult:
    """Return the result of a cell of a lost session.

    A loss by its own code is a crash: no code can turn a bad rollout into a failure of the infrastructure.
    """
    text = f"session is gone: {session.why_lost}"
    if not session.is_blamed:
        return refusal(Status.SESSION_LOST, text)
    error = ToolError(type="InterpreterDied", message=text, traceback="")
    return ToolResult(id="", status=Status.CRASH, error=error)
