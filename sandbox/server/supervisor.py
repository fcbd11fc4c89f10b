"""`Supervisor`: accepts calls, sends them to fork servers, enforces limits, returns results.

It has one thread and one epoll loop. From a child it parses only bounded JSON. When a child, a fork server or a client
dies, its calls end at once.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
import traceback
from collections import deque
from dataclasses import asdict

from records.tool_call import Status, ToolResult
from sandbox.child import kernel
from sandbox.child.call import new_job_file
from sandbox.child.fork_server import REPLY, Op
from sandbox.server import call_folders, fork_servers, layer_trial, orphans, outcome, preload_tiers
from sandbox.server.child_bytes import Outcome, max_outcome_bytes, parse_outcome
from sandbox.server.failed_starts import lost_at_start, why_not_set_up
from sandbox.server.seats import Seats
from sandbox.server.session_pool import SessionPool
from sandbox.server.start_up import StartError, check_level, prepare, traces_of
from sandbox.server.supervisor_state import READ_BYTES, Connection, Guard, Pending, Run, append_only
from sandbox.server.time_limits import Watch
from sandbox.settings import Settings
from sandbox.wire import (
    MAX_FRAME_BYTES,
    MAX_NAME_CHARS,
    Kind,
    WireError,
    decode_call,
    encode_result,
    fault_of_limits,
    fault_of_stdin,
    pack,
    refusal,
    refusal_when_full,
    refusal_when_withdrawn,
)

MAX_DEATHS = 8
"""The supervisor stops after this many deaths of fork servers within a minute."""


class Supervisor:
    """All state of one supervisor; `serve` runs until the last client disconnects."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tiers = preload_tiers.plan(settings.preload)
        self.poller = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.servers: dict[int, fork_servers.Server] = {}
        self.fleet = fork_servers.Fleet(settings)
        self.queue: deque[Pending] = deque()
        self.runs: dict[int, Run] = {}
        self.lost_tiers: list[int] = []
        """Fork servers that have not been restarted yet."""
        self.num_faults = 0
        self.last_fault = ""
        self.watch = Watch(settings)
        self.death_times: deque[float] = deque(maxlen=MAX_DEATHS)
        self.memory_is_low = False
        self.next_housekeeping_t = 0.0
        self.dirty: set[Connection] = set()
        self.report, self.plan, folders = prepare(settings)
        self.seats = Seats(folders, settings.num_slots, settings.max_sessions)
        self.poller.register(self.seats.cleaner.descriptor, select.EPOLLIN)
        self.sessions = SessionPool(self)

    # Start and stop

    def start_servers(self) -> None:
        """Start every tier, and wait until all are ready.

        Raises:
            StartError: a preloaded module is missing, a layer did not hold, or a server did not start.
        """
        per_tier = -(-self.settings.workers // 4)
        for tier in range(len(self.tiers.modules)):
            for _ in range(per_tier):
                self._start_server(tier)
        for server in self.servers.values():
            fork_servers.await_ready(server, self.settings)
        self.report = layer_trial.try_layers(
            server, self.plan, self.report, seat=0, tmp_bytes=self.settings.tmp_bytes
        )
        check_level(self.report, self.settings.min_isolation)
        self.seats.folders.clean(0)

    def _start_server(self, tier: int) -> None:
        server = fork_servers.start_server(self.settings, self.plan, tier, self.tiers.modules[tier])
        self.servers[server.control.fileno()] = server
        self.poller.register(server.control.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Kill all processes and remove all files."""
        for server in self.servers.values():
            server.stop()
        orphans.end_all()
        self.seats.cleaner.stop()
        call_folders.remove_root(self.plan.places.root)

    # The loop

    def add_client(self, link: socket.socket) -> Connection:
        """Serve another client."""
        link.setblocking(False)
        connection = Connection(link)
        self.connections[link.fileno()] = connection
        self.poller.register(link.fileno(), select.EPOLLIN)
        return connection

    def greet(self, connection: Connection) -> None:
        """Report to a client that the supervisor accepts calls."""
        self._post(connection, pack(Kind.READY, 0, self.ready_text()))

    def serve(self) -> None:
        """Run until the last client disconnects."""
        while self.connections:
            self.step()

    def step(self) -> None:
        """Wait for events, handle them, start waiting calls, send replies."""
        for descriptor, events in self.poller.poll(self._seconds_to_next()):
            with self.guarded():
                self._on_event(descriptor, events)
        now = time.monotonic()
        with self.guarded():
            self.watch.act(now)
        if now >= self.next_housekeeping_t:
            self.next_housekeeping_t = now + 0.5
            with self.guarded():
                self._keep_house(now)
        self._dispatch(now)
        self._send_all()

    def _on_event(self, descriptor: int, events: int) -> None:
        if descriptor in self.servers:
            self._on_server(self.servers[descriptor], events)
        elif descriptor in self.sessions.by_link:
            self.sessions.on_readable(self.sessions.by_link[descriptor])
        elif descriptor in self.connections:
            self._on_client(self.connections[descriptor], events)
        elif descriptor == self.seats.cleaner.descriptor:
            self.seats.collect()
            self.sessions.seat_waiting()

    def guarded(self, *pendings: Pending) -> Guard:
        """Guard a block against faults: a fault is counted, and the calls concerned end as lost."""
        return Guard(self._on_fault, pendings)

    def _on_fault(self, error: Exception, pendings: tuple[Pending, ...]) -> bool:
        """Count a fault; return whether the loop continues."""
        if isinstance(error, StartError):
            return False
        self.num_faults += 1
        self.last_fault = "".join(traceback.format_exception(error))[-2000:]
        for pending in pendings:
            text = f"the sandbox failed at this call: {type(error).__name__}: {error}"
            self.answer(pending, refusal(Status.LOST, text))
        return True

    def _seconds_to_next(self) -> float:
        until = self.watch.next_t()
        until = self.next_housekeeping_t if until is None else min(until, self.next_housekeeping_t)
        return max(0.0, until - time.monotonic())

    # Clients

    def _on_client(self, connection: Connection, events: int) -> None:
        if events & select.EPOLLOUT:
            self.dirty.add(connection)
        if not events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            return
        try:
            data = connection.link.recv(READ_BYTES)
            frames = connection.reader.feed(data) if data else []
        except BlockingIOError:
            return
        except (OSError, WireError):
            data, frames = b"", []
        if not data:
            self._drop_client(connection)
            return
        for kind, number, payload in frames:
            if not connection.is_open:  # an earlier frame was refused: the frames behind it are ignored
                return
            self._on_frame(connection, kind, number, payload)

    def _on_frame(self, connection: Connection, kind: Kind, number: int, payload: bytes) -> None:
        if kind is Kind.CALL:
            self._accept(connection, number, payload)
        elif kind is Kind.CANCEL:
            self._cancel(connection, number)
        elif kind is Kind.CLOSE_SESSION:
            self.sessions.close(connection, payload.decode("utf-8", "replace"))
        elif kind is Kind.STATUS:
            self._post(connection, pack(Kind.STATUS, number, json.dumps(self.status()).encode()))

    def status(self) -> dict[str, object]:
        """Return figures for people and tests."""
        return {
            "queued": len(self.queue),
            "running": len(self.runs),
            "sessions": self.sessions.num_live,
            "zygotes": [server.process.pid for server in self.servers.values()],
            "supervisor": os.getpid(),
            "open_descriptors": len(os.listdir("/proc/self/fd")),
            "tmp_root": self.plan.places.root,
            "unclean_seats": self.seats.cleaner.num_unclean,
            "faults": self.num_faults,
            "last_fault": self.last_fault,
            "cpu_s": time.process_time(),
        }

    def ready_text(self) -> bytes:
        """Return the first message to a client: layers and their state."""
        states = [asdict(state) for state in self.report.states]
        record = {
            "level": self.report.level,
            "states": states,
            "traces": asdict(traces_of(self.plan, self.settings)),
        }
        return json.dumps(record | self.status()).encode()

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
        self.sessions.drop_client(connection)
        connection.link.close()

    def _post(self, connection: Connection, frame: bytes) -> None:
        if connection.is_open:
            connection.outbox.append(frame)
            self.dirty.add(connection)

    def answer(self, pending: Pending, result: ToolResult) -> None:
        """Send the one result of a call."""
        payload = encode_result(result)
        if len(payload) > MAX_FRAME_BYTES:  # the client would treat the connection as broken
            payload = encode_result(refusal(Status.OUTPUT_LIMIT, "the result is too long to be passed on"))
        self._post(pending.connection, pack(Kind.RESULT, pending.number, payload))

    def _send_all(self) -> None:
        for connection in list(self.dirty):
            try:
                is_done = connection.flush()
            except OSError:
                self._drop_client(connection)
                continue
            if is_done == connection.waits_to_send:
                connection.waits_to_send = not is_done
                events = select.EPOLLIN | (0 if is_done else select.EPOLLOUT)
                self.poller.modify(connection.link.fileno(), events)
            if is_done:
                self.dirty.discard(connection)

    # Accepting and starting

    def _accept(self, connection: Connection, number: int, payload: bytes) -> None:
        try:
            session, limits, _seed, code, stdin = decode_call(payload)
        except WireError as error:
            self._post(
                connection, pack(Kind.RESULT, number, encode_result(refusal(Status.REJECTED, str(error))))
            )
            return
        tier = self.tiers.last if session is not None else self.tiers.of(code)
        pending = Pending(connection, number, session, limits, payload, tier, time.monotonic())
        fault = fault_of_limits(limits) or fault_of_stdin(len(stdin))
        if session is not None and len(session) > MAX_NAME_CHARS:
            fault = f"session has more than {MAX_NAME_CHARS} characters"
        if fault or len(code) > 4 * 2**20:
            self.answer(pending, refusal(Status.REJECTED, fault or "code is too long"))
            return
        limit = self.settings.queue_limit
        if limit is not None and len(self.queue) >= limit:
            wait_s = max(0.05, len(self.queue) * 0.005 / self.settings.workers)
            self.answer(pending, refusal_when_full(wait_s))
            return
        self.queue.append(pending)

    def _dispatch(self, now: float) -> None:
        if not any(server.is_ready for server in self.servers.values()):
            return  # all are restarting: no waiting call is lost
        while self.queue and len(self.runs) < self.settings.num_slots and not self.memory_is_low:
            pending = self.queue.popleft()
            if pending.session is not None:
                with self.guarded(pending):
                    self.sessions.start_cell(pending, now)
            elif self.seats.for_calls:
                self._start_call(pending, now)
            else:
                self.queue.appendleft(pending)
                return

    def server_for(self, tier: int) -> fork_servers.Server | None:
        """Return the fork server that takes the next call of a tier."""
        return self.fleet.pick(self.servers.values(), tier)

    def _start_call(self, pending: Pending, now: float) -> None:
        server = self.server_for(pending.tier)
        if server is None:
            self.answer(pending, refusal(Status.LOST, "no fork server is alive"))
            return
        seat = self.seats.for_calls.pop()
        files: list[int] = []
        is_started = False
        with self.guarded(pending):
            files = [new_job_file(), os.memfd_create("out"), os.memfd_create("err")]
            os.write(files[0], pending.payload)
            for descriptor in files[1:]:
                append_only(descriptor)
            is_started = True
        if not is_started:
            for descriptor in files:
                os.close(descriptor)
            self.seats.release(seat)
            return
        run = Run(
            pending=pending, seat=seat, server=server, files=(files[0], files[1], files[2]), start_t=now
        )
        self.runs[seat] = run
        server.seats.add(seat)
        server.ask(Op.CALL, seat, job_bytes=len(pending.payload), descriptors=run.files)
        self.watch.start(run, now)

    # Fork servers

    def _on_server(self, server: fork_servers.Server, events: int) -> None:
        while True:
            try:
                message = server.control.recv(4096)
            except BlockingIOError:
                if server.backlog:
                    server.flush()
                return
            except OSError:
                message = b""
            if not message:  # only the end of its connection reports its death
                self._on_server_death(server)
                return
            with self.guarded():
                self._on_reply(server, message)

    def _on_reply(self, server: fork_servers.Server, message: bytes) -> None:
        op, seat, pid, status, cpu_s, rss_bytes = REPLY.unpack_from(message)
        if op == Op.READY:
            server.is_ready = True
        elif op == Op.EXITED:
            self._on_exit(server, seat, pid, status, cpu_s, rss_bytes)
        elif op == Op.USED and seat in self.runs:
            self.watch.on_used(self.runs[seat], cpu_s)
        elif op == Op.STARTED:
            self.sessions.on_started(seat, pid)

    def _on_exit(
        self, server: fork_servers.Server, seat: int, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        server.seats.discard(seat)
        run = self.runs.pop(seat, None)
        if seat >= self.settings.num_slots:
            self.sessions.on_exit(seat, run, pid, status, cpu_s, rss_bytes)
            return
        if run is not None:
            run.is_over = True
            with self.guarded(run.pending):
                self._conclude_call(run, pid, status, cpu_s, rss_bytes)
            for descriptor in run.files:
                os.close(descriptor)
        self.seats.release(seat)

    def _conclude_call(self, run: Run, pid: int, status: int, cpu_s: float, rss_bytes: int) -> None:
        if run.verdict is not None or pid <= 0:
            why = "cancelled" if run.verdict else "no process could be started"
            self.answer(run.pending, refusal(run.verdict or Status.LOST, why))
        elif status != 0 and not run.is_set_up():
            self._start_again(run.pending, why_not_set_up(run.files[2]))
        elif run.pending.connection.is_open:
            code = os.waitstatus_to_exitcode(status)
            job = run.files[0]
            size = os.fstat(job).st_size
            is_read = code == 0 and size <= max_outcome_bytes(run.pending.limits)
            record = parse_outcome(os.pread(job, size, 0)) if is_read else None
            ending = run.ending(code, cpu_s, rss_bytes)
            self.answer(run.pending, self.judge(record, run.files[1], run.files[2], ending, run))

    def _start_again(self, pending: Pending, why: str) -> None:
        if (lost := lost_at_start(pending, why)) is not None:
            self.answer(pending, lost)
        else:
            self.queue.appendleft(pending)

    def judge(
        self, record: Outcome | None, out: int, err: int, ending: outcome.Ending, run: Run
    ) -> ToolResult:
        """Return the result of a run, from what its child left."""
        limits = run.pending.limits
        how = outcome.Reading(
            limits=limits,
            folder=self.plan.places.shown_to(run.seat),
            deterministic=self.settings.deterministic,
        )
        streams = [outcome.read_stream(descriptor, limits.output_bytes) for descriptor in (out, err)]
        return outcome.judge(record, streams[0], streams[1], ending, how)

    def _on_server_death(self, server: fork_servers.Server) -> None:
        """End the calls of its children, which die with it, and start another fork server."""
        descriptor = server.control.fileno()
        self.poller.unregister(descriptor)
        del self.servers[descriptor]
        server.stop()
        orphans.kill_strays(self._server_pids())
        now = time.monotonic()
        for seat in sorted(server.seats):
            run = self.runs.pop(seat, None)
            if seat >= self.settings.num_slots:
                self.sessions.on_server_death(seat, run)
                continue
            if run is not None:
                run.is_over = True
                if run.verdict is None and not run.is_set_up():
                    self._start_again(run.pending, "its fork server died")
                else:
                    self.answer(run.pending, refusal(run.verdict or Status.LOST, "its fork server died"))
                for file in run.files:
                    os.close(file)
            self.seats.rest(seat, now)
        if len(self.death_times) == MAX_DEATHS and now - self.death_times[0] < 60.0:
            raise StartError(f"fork servers died {MAX_DEATHS} times within a minute")
        self.death_times.append(now)
        self.lost_tiers.append(server.tier)
        self._replace_servers()

    def _replace_servers(self) -> None:
        """Restart dead fork servers; the next housekeeping retries those that cannot start now."""
        while self.lost_tiers:
            self._start_server(self.lost_tiers[-1])
            self.lost_tiers.pop()

    def _server_pids(self) -> set[int]:
        return {server.process.pid for server in self.servers.values()}

    # Ending early

    def _cancel(self, connection: Connection, number: int) -> None:
        for pending in self.queue:
            if pending.connection is connection and pending.number == number:
                self.queue.remove(pending)
                self.answer(pending, refusal_when_withdrawn())
                return
        for run in self.runs.values():
            if run.pending.connection is connection and run.pending.number == number:
                self._stop_run(run, Status.CANCELLED)
                return
        self.sessions.cancel_waiting(connection, number)

    def _stop_run(self, run: Run, verdict: Status) -> None:
        run.verdict = verdict
        run.is_killed = True
        run.server.ask(Op.KILL, run.seat)

    # Housekeeping

    def _keep_house(self, now: float) -> None:
        self.seats.keep_house(now)
        self._replace_servers()
        if not self.fleet.keep_house(self.servers.values(), now):
            while self.queue:
                self.answer(self.queue.popleft(), refusal(Status.LOST, "no fork server has come up in time"))
        orphans.reap(self._server_pids())
        self.sessions.evict_idle()
        self.sessions.end_busy()
        self.memory_is_low = kernel.memory_available_bytes() < self.settings.memory_low_bytes
        if self.memory_is_low and not self.sessions.evict_for_memory() and not self.runs:
            self.memory_is_low = False  # waiting would free no memory
