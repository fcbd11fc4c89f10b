"""The supervisor process: accepts calls, hands them to fork servers, enforces limits, returns results.

One thread, one epoll loop. It holds no model code in memory longer than it must and parses nothing that a child
left except bounded JSON. Whatever dies - a child, a fork server, a client - the calls it touched end at once.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

from sandbox import fleet, isolation, kernel, outcome, scratch, tiers
from sandbox.child import CELL_HEADER
from sandbox.isolation import IsolationReport, Layer, Level
from sandbox.jail import JailPlan
from sandbox.records import Limits, Status, ToolCall, ToolResult
from sandbox.runs import Connection, Pending, Run, Session
from sandbox.settings import Settings
from sandbox.wire import Kind, WireError, decode_call, encode_result, fault_of, pack, refusal
from sandbox.zygote import REPLY, Op

GRACE_S = 0.2
"""Between the exception that announces a limit and the kill."""
DECAY_AFTER_S = 0.1
QUARANTINE_S = 1.0
"""A seat whose fork server died is not used for so long: its last user may still be dying."""
MAX_DEATHS = 8
"""Fork servers dying within a minute before the supervisor gives up."""
_READ_BYTES = 1 << 18


class StartError(RuntimeError):
    """The sandbox cannot run here; the message says why and what to do."""


class Supervisor:
    """All state of one supervisor; `serve` runs until the last client is gone."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tiers = tiers.plan(settings.preload)
        self.poller = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.servers: dict[int, fleet.Server] = {}
        self.sessions_by_link: dict[int, Session] = {}
        self.sessions: dict[tuple[int, str], Session] = {}
        self.queue: deque[Pending] = deque()
        self.runs: dict[int, Run] = {}
        self.free_seats = list(reversed(range(settings.num_slots)))
        self.free_session_seats = list(
            reversed(range(settings.num_slots, settings.num_slots + settings.max_sessions))
        )
        self.quarantine: deque[tuple[float, int]] = deque()
        self.timers: list[tuple[float, int, Run]] = []
        self.order = itertools.count()
        self.num_running_cells = 0
        self.death_times: deque[float] = deque(maxlen=MAX_DEATHS)
        self.memory_is_low = False
        self.next_housekeeping_t = 0.0
        self.dirty: set[Connection] = set()
        self.report, self.plan = self._isolate()

    # Start and stop

    def _isolate(self) -> tuple[IsolationReport, JailPlan]:
        settings = self.settings
        isolation.descriptor_limit()
        self.tmp_root = scratch.new_root(settings.tmp_dir)
        report = isolation.probe(
            self.tmp_root, first_uid=settings.first_uid, disabled=settings.disabled_layers
        )
        missing = report.missing_for(settings.min_isolation)
        if missing:
            scratch.remove_root(self.tmp_root)
            raise StartError(
                f"isolation '{settings.min_isolation}' is required, this machine gives '{report.level}'; missing: "
                f"{missing}. Mend it, or lower min_isolation (one of {', '.join(Level)}) knowing what that means"
            )
        if Layer.BOUNDED_TMP in report.used:
            scratch.bound(self.tmp_root, settings.tmp_bytes)
        if Layer.FIXED_ADDRESSES in report.used:
            kernel.disable_address_randomisation()
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        plan = JailPlan(
            layers=report.used,
            landlock_abi=report.landlock_abi,
            first_uid=settings.first_uid,
            tmp_root=self.tmp_root,
            readable=isolation.interpreter_folders(),
            allow_processes=settings.allow_processes,
        )
        for seat in range(settings.num_slots):
            scratch.make_seat(plan.tmp_root, seat, fleet.uid_of(plan, seat))
        return report, plan

    def start_servers(self) -> None:
        """Start every tier, and wait until all are ready.

        Raises:
            StartError: a preloaded module is missing, or the like.
        """
        per_tier = -(-self.settings.workers // 4)
        for tier in range(len(self.tiers.modules)):
            for _ in range(per_tier):
                self._start_server(tier)
        for server in list(self.servers.values()):
            server.control.settimeout(120.0)
            try:
                message = server.control.recv(4096)
            except TimeoutError as error:
                raise StartError("a fork server did not start within 120 s") from error
            server.control.setblocking(False)
            self._check_start(message)
            server.is_ready = True

    def _check_start(self, message: bytes) -> None:
        if len(message) < REPLY.size:
            raise StartError(
                f"a fork server died at start; run it by hand: {self.settings.python} -m sandbox doctor"
            )
        if REPLY.unpack_from(message)[0] == Op.FAILED:
            said = message[REPLY.size :].decode("utf-8", "replace")
            raise StartError(
                f"a fork server of {self.settings.python} could not start: {said}; install what is missing there, "
                f"or take it out of preload ({', '.join(self.settings.preload)})"
            )

    def _start_server(self, tier: int) -> None:
        server = fleet.start_server(self.settings, self.plan, tier, self.tiers.modules[tier])
        self.servers[server.control.fileno()] = server
        self.poller.register(server.control.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Kill everything and leave nothing behind."""
        for server in self.servers.values():
            server.stop()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass
        if Layer.BOUNDED_TMP not in self.report.used:
            scratch.remove_root(self.tmp_root)

    # The loop

    def add_client(self, link: socket.socket) -> Connection:
        """Serve one more client."""
        link.setblocking(False)
        connection = Connection(link)
        self.connections[link.fileno()] = connection
        self.poller.register(link.fileno(), select.EPOLLIN)
        return connection

    def serve(self) -> None:
        """Work until the last client is gone."""
        while self.connections:
            self.step()

    def step(self) -> None:
        """Wait for events, act on them, start what can start, send what can be sent."""
        for descriptor, events in self.poller.poll(self._seconds_to_next()):
            if descriptor in self.servers:
                self._on_server(self.servers[descriptor], events)
            elif descriptor in self.sessions_by_link:
                self._on_session(self.sessions_by_link[descriptor])
            elif descriptor in self.connections:
                self._on_client(self.connections[descriptor], events)
        now = time.monotonic()
        if self.timers and self.timers[0][0] <= now:
            self._on_timers(now)
        if now >= self.next_housekeeping_t:
            self._keep_house(now)
        self._dispatch(now)
        self._send_all()

    def _seconds_to_next(self) -> float:
        now = time.monotonic()
        until = self.next_housekeeping_t
        if self.timers:
            until = min(until, self.timers[0][0])
        return max(0.0, until - now)

    # Clients

    def _on_client(self, connection: Connection, events: int) -> None:
        if events & select.EPOLLOUT:
            self.dirty.add(connection)
        if not events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            return
        try:
            data = connection.link.recv(_READ_BYTES)
            frames = connection.reader.feed(data) if data else []
        except BlockingIOError:
            return
        except (OSError, WireError):
            data, frames = b"", []
        if not data:
            self._drop_client(connection)
            return
        for kind, number, payload in frames:
            self._on_frame(connection, kind, number, payload)

    def _on_frame(self, connection: Connection, kind: Kind, number: int, payload: bytes) -> None:
        if kind is Kind.CALL:
            self._accept(connection, number, payload)
        elif kind is Kind.CANCEL:
            self._cancel(connection, number)
        elif kind is Kind.CLOSE_SESSION:
            self._close_session(connection, payload.decode("utf-8", "replace"))
        elif kind is Kind.STATUS:
            self._post(connection, pack(Kind.STATUS, number, json.dumps(self.status()).encode()))
        elif kind is Kind.HEARTBEAT:
            self._post(connection, pack(Kind.HEARTBEAT, number, self._load().encode()))

    def _load(self) -> str:
        return json.dumps({"free": self.settings.num_slots - len(self.runs), "queued": len(self.queue)})

    def status(self) -> dict[str, object]:
        """Figures for people and tests."""
        return {
            "queued": len(self.queue),
            "running": len(self.runs),
            "sessions": sum(session.is_live for session in self.sessions.values()),
            "zygotes": [server.process.pid for server in self.servers.values()],
            "supervisor": os.getpid(),
            "open_descriptors": len(os.listdir("/proc/self/fd")),
            "tmp_root": self.tmp_root,
            "cpu_s": time.process_time(),
        }

    def ready_text(self) -> bytes:
        """What a client is told first: layers and their state."""
        states = [asdict(state) for state in self.report.states]
        return json.dumps({"level": self.report.level, "states": states, **self.status()}).encode()

    def _drop_client(self, connection: Connection) -> None:
        descriptor = connection.link.fileno()
        self.poller.unregister(descriptor)
        del self.connections[descriptor]
        self.dirty.discard(connection)
        connection.is_open = False
        self.queue = deque(pending for pending in self.queue if pending.connection is not connection)
        for run in list(self.runs.values()):
            if run.pending.connection is connection:
                self._stop_run(run, Status.CANCELLED)
        for key, session in list(self.sessions.items()):
            if key[0] == connection.serial:
                self._end_session(session)
                self.sessions.pop(key, None)
        connection.link.close()

    def _post(self, connection: Connection, frame: bytes) -> None:
        if connection.is_open:
            connection.outbox.append(frame)
            self.dirty.add(connection)

    def _answer(self, pending: Pending, result: ToolResult) -> None:
        self._post(pending.connection, pack(Kind.RESULT, pending.number, encode_result(result)))

    def _send_all(self) -> None:
        for connection in list(self.dirty):
            try:
                is_done = connection.flush()
            except OSError:
                self._drop_client(connection)
                continue
            self.poller.modify(connection.link.fileno(), select.EPOLLIN | (0 if is_done else select.EPOLLOUT))
            if is_done:
                self.dirty.discard(connection)

    # Accepting and starting

    def _accept(self, connection: Connection, number: int, payload: bytes) -> None:
        try:
            session, limits, seed, code, _stdin = decode_call(payload)
        except WireError as error:
            self._post(
                connection, pack(Kind.RESULT, number, encode_result(refusal(Status.REJECTED, str(error))))
            )
            return
        tier = self.tiers.last if session is not None else self.tiers.of(code)
        pending = Pending(connection, number, session, limits, payload, tier, time.monotonic())
        fault = fault_of(ToolCall(id="x", code="", session=session, limits=limits, seed=seed))
        if fault or len(code) > 4 * 2**20:
            self._answer(pending, refusal(Status.REJECTED, fault or "code is too long"))
            return
        limit = self.settings.queue_limit
        if limit is not None and len(self.queue) >= limit:
            wait_s = max(0.05, len(self.queue) * 0.005 / self.settings.workers)
            self._answer(pending, refusal(Status.REJECTED, f"the queue is full; retry after {wait_s:.2f} s"))
            return
        self.queue.append(pending)

    def _dispatch(self, now: float) -> None:
        while self.queue and len(self.runs) < self.settings.num_slots and not self.memory_is_low:
            pending = self.queue.popleft()
            if pending.session is not None:
                self._start_cell(pending, now)
            elif self.free_seats:
                self._start_call(pending, now)
            else:
                self.queue.appendleft(pending)
                return

    def _server_for(self, tier: int) -> fleet.Server | None:
        """The least busy live fork server of a tier, or of the next richer one while that restarts."""
        for wanted in range(tier, len(self.tiers.modules)):
            ready = [server for server in self.servers.values() if server.tier == wanted and server.is_ready]
            if ready:
                return min(ready, key=lambda server: len(server.seats))
        live = [server for server in self.servers.values() if server.is_ready]
        return live[0] if live else None

    def _start_call(self, pending: Pending, now: float) -> None:
        server = self._server_for(pending.tier)
        if server is None:
            self._answer(pending, refusal(Status.LOST, "no fork server is alive"))
            return
        seat = self.free_seats.pop()
        files = (os.memfd_create("job"), os.memfd_create("out"), os.memfd_create("err"))
        os.write(files[0], pending.payload)
        for descriptor in files[1:]:
            _append_only(descriptor)
        run = Run(pending=pending, seat=seat, server=server, files=files, start_t=now)
        self.runs[seat] = run
        server.seats.add(seat)
        server.ask(Op.CALL, seat, job_bytes=len(pending.payload), descriptors=files)
        self._schedule(run, now + min(DECAY_AFTER_S, pending.limits.wall_s))

    # Time

    def _schedule(self, run: Run, at: float) -> None:
        heapq.heappush(self.timers, (at, next(self.order), run))

    def _on_timers(self, now: float) -> None:
        while self.timers and self.timers[0][0] <= now:
            run = heapq.heappop(self.timers)[2]
            if not run.is_over:
                self._on_time(run, now)

    def _on_time(self, run: Run, now: float) -> None:
        limits = run.pending.limits
        ran_s = now - run.start_t
        if run.verdict is not None or (run.is_announced and ran_s >= limits.wall_s + GRACE_S):
            run.server.ask(Op.KILL, run.seat)
            self._schedule(run, now + 1.0)
            return
        if ran_s >= limits.wall_s and not run.is_announced:
            run.is_announced = True
            run.limit_hit = f"wall time limit of {limits.wall_s:g} s reached"
            run.server.ask(Op.ANNOUNCE, run.seat)
            self._schedule(run, now + GRACE_S)
            return
        if (
            ran_s >= DECAY_AFTER_S
            and not run.is_decayed
            and self.settings.decayed_niceness > self.settings.niceness
        ):
            run.is_decayed = True
            run.server.ask(Op.RENICE, run.seat, cpu_s=self.settings.decayed_niceness)
        cpu_limit = run.base_cpu_s + limits.cpu_s + GRACE_S
        run.server.ask(Op.CHECK, run.seat, cpu_s=cpu_limit)
        run.next_check_t = now
        due = min(run.start_t + limits.wall_s, now + 0.25)
        self._schedule(run, max(due, now + 0.005))

    def _on_used(self, run: Run, used_s: float) -> None:
        """A fork server measured a child: look again when it can have reached its limit at the earliest."""
        left = run.base_cpu_s + run.pending.limits.cpu_s + GRACE_S - used_s
        if left <= 0.0:
            run.limit_hit = run.limit_hit or f"CPU time limit of {run.pending.limits.cpu_s:g} s reached"
        elif left < 0.25:
            self._schedule(run, time.monotonic() + max(left, 0.005))

    # Fork servers

    def _on_server(self, server: fleet.Server, events: int) -> None:
        try:
            while True:
                message = server.control.recv(4096)
                if not message:
                    break
                self._on_reply(server, message)
        except BlockingIOError:
            if server.backlog:
                server.flush()
            return
        except OSError:
            pass
        self._on_server_death(server)

    def _on_reply(self, server: fleet.Server, message: bytes) -> None:
        op, seat, pid, status, cpu_s, rss_bytes = REPLY.unpack_from(message)
        if op == Op.READY:
            server.is_ready = True
        elif op == Op.EXITED:
            self._on_exit(server, seat, pid, status, cpu_s, rss_bytes)
        elif op == Op.USED and seat in self.runs:
            self._on_used(self.runs[seat], cpu_s)
        elif op == Op.STARTED:
            for session in self.sessions.values():
                if session.seat == seat and session.is_live:
                    session.on_started(pid)

    def _on_exit(
        self, server: fleet.Server, seat: int, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        server.seats.discard(seat)
        run = self.runs.pop(seat, None)
        if seat >= self.settings.num_slots:
            self._on_session_exit(seat, run, pid, status, cpu_s, rss_bytes)
            return
        if run is not None:
            self._conclude_call(run, pid, status, cpu_s, rss_bytes)
        self._clean(seat)
        self.free_seats.append(seat)

    def _conclude_call(self, run: Run, pid: int, status: int, cpu_s: float, rss_bytes: int) -> None:
        run.is_over = True
        if run.verdict is not None or pid <= 0:
            verdict = run.verdict or Status.LOST
            self._answer(
                run.pending, refusal(verdict, "cancelled" if run.verdict else "no process could be started")
            )
        elif run.pending.connection.is_open:
            code = os.waitstatus_to_exitcode(status)
            job = run.files[0]
            size = min(os.fstat(job).st_size, outcome.MAX_OUTCOME_BYTES * 32)
            record = outcome.parse_outcome(os.pread(job, size, 0)) if code == 0 else None
            ending = run.ending(code, cpu_s, rss_bytes)
            how = self._reading(run.pending.limits, run.seat)
            self._answer(run.pending, self._judge(record, run.files[1], run.files[2], ending, how))
        for descriptor in run.files:
            os.close(descriptor)

    def _judge(
        self,
        record: dict[str, object] | None,
        out: int,
        err: int,
        ending: outcome.Ending,
        how: outcome.Reading,
    ) -> ToolResult:
        limit = how.limits.output_bytes
        streams = outcome.read_stream(out, limit), outcome.read_stream(err, limit)
        return outcome.judge(record, streams[0], streams[1], ending, how)

    def _reading(self, limits: Limits, seat: int) -> outcome.Reading:
        folder = self.plan.folder_of(seat)
        return outcome.Reading(limits=limits, folder=folder, deterministic=self.settings.deterministic)

    def _clean(self, seat: int) -> None:
        folder = self.plan.folder_of(seat)
        try:
            scratch.empty(folder)
        except OSError:  # give the seat a new folder rather than a dirty one
            with contextlib.suppress(OSError):
                os.rename(folder, f"{self.tmp_root}/dirty-{time.monotonic_ns()}")
            scratch.make_seat(self.tmp_root, seat, fleet.uid_of(self.plan, seat))

    def _on_server_death(self, server: fleet.Server) -> None:
        """Its children die with it: end their calls now, and start another."""
        descriptor = server.control.fileno()
        self.poller.unregister(descriptor)
        del self.servers[descriptor]
        server.stop()
        self._kill_orphans()
        now = time.monotonic()
        for seat in sorted(server.seats):
            run = self.runs.pop(seat, None)
            if seat >= self.settings.num_slots:
                self._lose_session(seat, run, "its fork server died")
                continue
            if run is not None:
                run.is_over = True
                self._answer(run.pending, refusal(run.verdict or Status.LOST, "its fork server died"))
                for file in run.files:
                    os.close(file)
            self.quarantine.append((now + QUARANTINE_S, seat))
        if len(self.death_times) == MAX_DEATHS and now - self.death_times[0] < 60.0:
            raise StartError(f"fork servers died {MAX_DEATHS} times within a minute")
        self.death_times.append(now)
        self._start_server(server.tier)

    def _kill_orphans(self) -> None:
        """Children of a dead fork server become ours; kill what is not a fork server."""
        ours = {server.process.pid for server in self.servers.values()}
        with contextlib.suppress(OSError):
            for pid in map(int, Path("/proc/thread-self/children").read_text().split()):
                if pid not in ours:
                    os.kill(pid, signal.SIGKILL)

    # Sessions

    def _start_cell(self, pending: Pending, now: float) -> None:
        assert pending.session is not None
        key = (pending.connection.serial, pending.session)
        session = self.sessions.get(key)
        if session is not None and not session.is_live:
            self._answer(pending, refusal(Status.SESSION_LOST, f"session is gone: {session.why_lost}"))
            return
        if session is None:
            session = self._new_session(key, pending)
            if session is None:
                return
        if session.run is not None:
            session.waiting.append(pending)
            return
        session.begin(pending, now)
        assert session.run is not None
        self.runs[session.seat] = session.run
        if session.send(CELL_HEADER.pack(len(pending.payload)) + pending.payload):
            self.poller.modify(session.link.fileno(), select.EPOLLIN | select.EPOLLOUT)
        self._schedule(session.run, now + min(DECAY_AFTER_S, pending.limits.wall_s))

    def _new_session(self, key: tuple[int, str], pending: Pending) -> Session | None:
        if not self.free_session_seats and not self._evict("room for another session was needed"):
            text = f"all {self.settings.max_sessions} sessions are busy; retry later or raise max_sessions"
            self._answer(pending, refusal(Status.REJECTED, text))
            return None
        server = self._server_for(self.tiers.last)
        if server is None or not self.free_session_seats:
            self._answer(pending, refusal(Status.LOST, "no fork server or seat is free; retry"))
            return None
        seat = self.free_session_seats.pop()
        scratch.make_seat(self.tmp_root, seat, fleet.uid_of(self.plan, seat))
        session = Session(key, seat, server)
        self.sessions[key] = session
        self.sessions_by_link[session.link.fileno()] = session
        self.poller.register(session.link.fileno(), select.EPOLLIN)
        server.seats.add(seat)
        server.ask(Op.SESSION, seat, descriptors=session.child_descriptors())
        return session

    def _on_session(self, session: Session) -> None:
        try:
            if session.flush():
                self.poller.modify(session.link.fileno(), select.EPOLLIN)
            data = session.link.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the exit itself is reported by the fork server
            self._forget_link(session)
            return
        session.inbox += data
        if session.run is None or session.is_over_full():
            session.server.ask(Op.KILL, session.seat)  # it speaks out of turn
            return
        text = session.take_outcome()
        if text is not None:
            self._conclude_cell(session, text)

    def _conclude_cell(self, session: Session, text: bytes) -> None:
        run = session.run
        assert run is not None
        run.is_over = True
        self.runs.pop(session.seat, None)
        used_s = session.cpu_s_now()
        ending = run.ending(0, max(0.0, used_s - run.base_cpu_s), 0)
        record = outcome.parse_outcome(text)
        result = self._judge(
            record, session.out, session.err, ending, self._reading(run.pending.limits, session.seat)
        )
        session.finish(used_s)
        if run.verdict is not None:
            result = refusal(run.verdict, "cancelled")
        self._answer(run.pending, result)
        if result.status in (Status.OUTPUT_LIMIT, Status.CRASH):
            session.server.ask(Op.KILL, session.seat)
        elif session.waiting:
            self.queue.appendleft(session.waiting.popleft())

    def _on_session_exit(
        self, seat: int, run: Run | None, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        session = next((s for s in self.sessions.values() if s.seat == seat and s.is_live), None)
        if session is not None and run is not None:
            session.drain()
            text = session.take_outcome()
            if text is not None and run.verdict is None and not run.limit_hit:
                self._conclude_cell(session, text)
            else:
                self._conclude_dead_cell(session, run, pid, status, cpu_s, rss_bytes)
        if session is not None:
            self._retire(session, "its interpreter ended")
        self._clean(seat)
        self.free_session_seats.append(seat)

    def _conclude_dead_cell(
        self, session: Session, run: Run, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        run.is_over = True
        if run.verdict is not None or pid <= 0:
            self._answer(
                run.pending, refusal(run.verdict or Status.LOST, "cancelled" if run.verdict else "no process")
            )
            return
        code = os.waitstatus_to_exitcode(status)
        ending = run.ending(code or 1, max(0.0, cpu_s - run.base_cpu_s), rss_bytes)
        how = self._reading(run.pending.limits, session.seat)
        self._answer(run.pending, self._judge(None, session.out, session.err, ending, how))

    def _lose_session(self, seat: int, run: Run | None, why: str) -> None:
        session = next((s for s in self.sessions.values() if s.seat == seat and s.is_live), None)
        if run is not None:
            run.is_over = True
            self._answer(run.pending, refusal(run.verdict or Status.LOST, why))
        if session is not None:
            self._retire(session, why)
        self._clean(seat)
        self.free_session_seats.append(seat)

    def _retire(self, session: Session, why: str) -> None:
        """Mark a session as gone; the next call that names it is told so."""
        self._forget_link(session)
        session.retire(why)
        for pending in session.waiting:
            self._answer(pending, refusal(Status.SESSION_LOST, f"session is gone: {session.why_lost}"))
        session.waiting.clear()
        if session.is_closed:
            self.sessions.pop(session.key, None)

    def _forget_link(self, session: Session) -> None:
        if self.sessions_by_link.pop(session.link.fileno(), None) is not None:
            self.poller.unregister(session.link.fileno())

    def _close_session(self, connection: Connection, name: str) -> None:
        session = self.sessions.get((connection.serial, name))
        if session is None:
            return
        session.is_closed = True
        if session.is_live:
            self._end_session(session)
        else:
            del self.sessions[session.key]

    def _end_session(self, session: Session) -> None:
        if session.is_live:
            session.is_closed = True
            session.server.ask(Op.KILL, session.seat)

    def _evict(self, why: str) -> bool:
        """Kill the session that has been idle longest; False when none is idle."""
        idle = [s for s in self.sessions.values() if s.is_live and s.run is None and not s.why_lost]
        if not idle:
            return False
        session = min(idle, key=lambda entry: entry.last_used_t)
        session.why_lost = why
        session.server.ask(Op.KILL, session.seat)
        return True

    # Ending early

    def _cancel(self, connection: Connection, number: int) -> None:
        for pending in self.queue:
            if pending.connection is connection and pending.number == number:
                self.queue.remove(pending)
                self._answer(pending, refusal(Status.CANCELLED, "cancelled before it started"))
                return
        for run in self.runs.values():
            if run.pending.connection is connection and run.pending.number == number:
                self._stop_run(run, Status.CANCELLED)
                return

    def _stop_run(self, run: Run, verdict: Status) -> None:
        run.verdict = verdict
        run.server.ask(Op.KILL, run.seat)

    # Housekeeping

    def _keep_house(self, now: float) -> None:
        self.next_housekeeping_t = now + 0.5
        while self.quarantine and self.quarantine[0][0] <= now:
            seat = self.quarantine.popleft()[1]
            self._clean(seat)
            self.free_seats.append(seat)
        oldest = now - self.settings.session_idle_s
        for session in list(self.sessions.values()):
            if (
                session.is_live
                and session.run is None
                and session.last_used_t < oldest
                and not session.why_lost
            ):
                session.why_lost = "it was idle for too long"
                session.server.ask(Op.KILL, session.seat)
        self.memory_is_low = memory_available_bytes() < self.settings.memory_low_bytes
        if self.memory_is_low and not self._evict("memory ran low") and not self.runs:
            self.memory_is_low = False  # waiting would free nothing


def memory_available_bytes() -> int:
    """What the kernel says can still be had without swapping."""
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**62


def _append_only(descriptor: int) -> None:
    import fcntl

    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)


def main() -> None:
    """Entry point: the settings are the last argument, as JSON; descriptor 0 is the client's socket."""
    link = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    supervisor = None
    try:
        supervisor = Supervisor(Settings.from_text(sys.argv[-1]))
        supervisor.start_servers()
        connection = supervisor.add_client(link)
        supervisor._post(connection, pack(Kind.READY, 0, supervisor.ready_text()))
        supervisor.serve()
    except StartError as error:
        with contextlib.suppress(OSError):
            link.setblocking(True)
            link.sendall(pack(Kind.FAILED, 0, str(error).encode()))
    finally:
        if supervisor is not None:
            supervisor.close()
