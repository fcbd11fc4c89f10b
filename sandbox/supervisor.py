"""The supervisor process: accepts calls, hands them to fork servers, enforces limits, returns results.

One thread, one epoll loop. It holds no model code in memory longer than it must and parses nothing that a child
left except bounded JSON. Whatever dies - a child, a fork server, a client - the calls it touched end at once.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from dataclasses import asdict

from sandbox import fleet, orphans, outcome, scratch, tiers
from sandbox.child import is_set_up, new_job_file
from sandbox.isolation import Layer
from sandbox.launch import StartError, prepare
from sandbox.records import Status, ToolResult
from sandbox.runs import READ_BYTES, Connection, Pending, Run, append_only
from sandbox.session_pool import SessionPool
from sandbox.settings import Settings
from sandbox.watch import Watch
from sandbox.wire import (
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
from sandbox.zygote import REPLY, Op

QUARANTINE_S = 1.0
"""A seat whose fork server died is not used for so long: its last user may still be dying."""
GC_THRESHOLDS = (50_000, 20, 20)
"""A call leaves no cycles; with 45,000 of them waiting a collection would look at each for nothing."""
MAX_DEATHS = 8
"""Fork servers dying within a minute before the supervisor gives up."""


class Supervisor:
    """All state of one supervisor; `serve` runs until the last client is gone."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tiers = tiers.plan(settings.preload)
        self.poller = select.epoll()
        self.connections: dict[int, Connection] = {}
        self.servers: dict[int, fleet.Server] = {}
        self.queue: deque[Pending] = deque()
        self.runs: dict[int, Run] = {}
        self.free_seats = list(reversed(range(settings.num_slots)))
        self.quarantine: deque[tuple[float, int]] = deque()
        self.watch = Watch(settings)
        self.death_times: deque[float] = deque(maxlen=MAX_DEATHS)
        self.memory_is_low = False
        self.next_housekeeping_t = 0.0
        self.dirty: set[Connection] = set()
        self.report, self.plan = prepare(settings)
        self.sessions = SessionPool(self)

    # Start and stop

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
        orphans.end_all()
        if Layer.BOUNDED_TMP not in self.report.used:
            scratch.remove_root(self.plan.tmp_root)

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
            elif descriptor in self.sessions.by_link:
                self.sessions.on_readable(self.sessions.by_link[descriptor])
            elif descriptor in self.connections:
                self._on_client(self.connections[descriptor], events)
            else:
                self._on_other(descriptor)
        now = time.monotonic()
        self.watch.act(now)
        if now >= self.next_housekeeping_t:
            self._keep_house(now)
        self._dispatch(now)
        self._send_all()

    def _on_other(self, descriptor: int) -> None:
        """A descriptor closed in this very round; a node has its listener here."""

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
            if not connection.is_open:  # refused at a frame before: what came with it counts for nothing
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
        elif kind is Kind.HEARTBEAT:
            self._post(connection, pack(Kind.HEARTBEAT, number, self._load().encode()))

    def _load(self) -> str:
        return json.dumps({"free": self.settings.num_slots - len(self.runs), "queued": len(self.queue)})

    def status(self) -> dict[str, object]:
        """Figures for people and tests."""
        return {
            "queued": len(self.queue),
            "running": len(self.runs),
            "sessions": self.sessions.num_live,
            "zygotes": [server.process.pid for server in self.servers.values()],
            "supervisor": os.getpid(),
            "open_descriptors": len(os.listdir("/proc/self/fd")),
            "tmp_root": self.plan.tmp_root,
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
        self.sessions.drop_client(connection)
        connection.link.close()

    def _post(self, connection: Connection, frame: bytes) -> None:
        if connection.is_open:
            connection.outbox.append(frame)
            self.dirty.add(connection)

    def answer(self, pending: Pending, result: ToolResult) -> None:
        """The one result of a call."""
        self._post(pending.connection, pack(Kind.RESULT, pending.number, encode_result(result)))

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
            return  # all are being started anew: nothing that waits is lost
        while self.queue and len(self.runs) < self.settings.num_slots and not self.memory_is_low:
            pending = self.queue.popleft()
            if pending.session is not None:
                self.sessions.start_cell(pending, now)
            elif self.free_seats:
                self._start_call(pending, now)
            else:
                self.queue.appendleft(pending)
                return

    def server_for(self, tier: int) -> fleet.Server | None:
        """The least busy live fork server of a tier, or of the next richer one while that restarts."""
        for wanted in range(tier, len(self.tiers.modules)):
            ready = [server for server in self.servers.values() if server.tier == wanted and server.is_ready]
            if ready:
                return min(ready, key=lambda server: len(server.seats))
        live = [server for server in self.servers.values() if server.is_ready]
        return live[0] if live else None

    def _start_call(self, pending: Pending, now: float) -> None:
        server = self.server_for(pending.tier)
        if server is None:
            self.answer(pending, refusal(Status.LOST, "no fork server is alive"))
            return
        seat = self.free_seats.pop()
        files = (new_job_file(), os.memfd_create("out"), os.memfd_create("err"))
        os.write(files[0], pending.payload)
        for descriptor in files[1:]:
            append_only(descriptor)
        run = Run(pending=pending, seat=seat, server=server, files=files, start_t=now)
        self.runs[seat] = run
        server.seats.add(seat)
        server.ask(Op.CALL, seat, job_bytes=len(pending.payload), descriptors=files)
        self.watch.start(run, now)

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
            self.watch.on_used(self.runs[seat], cpu_s)
        elif op == Op.STARTED:
            self.sessions.on_started(seat, pid)

    def _on_exit(
        self, server: fleet.Server, seat: int, pid: int, status: int, cpu_s: float, rss_bytes: int
    ) -> None:
        server.seats.discard(seat)
        run = self.runs.pop(seat, None)
        if seat >= self.settings.num_slots:
            self.sessions.on_exit(seat, run, pid, status, cpu_s, rss_bytes)
            return
        if run is not None:
            self._conclude_call(run, pid, status, cpu_s, rss_bytes)
        self.clean(seat)
        self.free_seats.append(seat)

    def _conclude_call(self, run: Run, pid: int, status: int, cpu_s: float, rss_bytes: int) -> None:
        run.is_over = True
        if run.verdict is not None or pid <= 0:
            verdict = run.verdict or Status.LOST
            self.answer(
                run.pending, refusal(verdict, "cancelled" if run.verdict else "no process could be started")
            )
        elif status != 0 and not is_set_up(run.files[0]):
            self.answer(run.pending, self.refusal_of_set_up(run.files[2]))
        elif run.pending.connection.is_open:
            code = os.waitstatus_to_exitcode(status)
            job = run.files[0]
            size = os.fstat(job).st_size
            is_read = code == 0 and size <= outcome.max_outcome_bytes(run.pending.limits)
            record = outcome.parse_outcome(os.pread(job, size, 0)) if is_read else None
            ending = run.ending(code, cpu_s, rss_bytes)
            self.answer(run.pending, self.judge(record, run.files[1], run.files[2], ending, run))
        for descriptor in run.files:
            os.close(descriptor)

    @staticmethod
    def refusal_of_set_up(err: int) -> ToolResult:
        """The result of a call whose child ended before any code ran: the fault is the sandbox's."""
        why = os.pread(err, 400, 0).decode("utf-8", "replace").strip() or "it was killed"
        return refusal(Status.LOST, f"the process of the call could not be set up: {why}")

    def judge(
        self, record: dict[str, object] | None, out: int, err: int, ending: outcome.Ending, run: Run
    ) -> ToolResult:
        """The result of a run, from what its child left."""
        limits = run.pending.limits
        how = outcome.Reading(
            limits=limits, folder=self.plan.folder_of(run.seat), deterministic=self.settings.deterministic
        )
        streams = [outcome.read_stream(descriptor, limits.output_bytes) for descriptor in (out, err)]
        return outcome.judge(record, streams[0], streams[1], ending, how)

    def uid_of(self, seat: int) -> int | None:
        """The user id of a seat, where seats have one."""
        return fleet.uid_of(self.plan, seat)

    def clean(self, seat: int) -> None:
        """Empty the folder of a seat for its next user."""
        folder = self.plan.folder_of(seat)
        try:
            scratch.empty(folder)
        except OSError:  # give the seat a new folder rather than a dirty one
            with contextlib.suppress(OSError):
                os.rename(folder, f"{self.plan.tmp_root}/dirty-{time.monotonic_ns()}")
            scratch.make_seat(self.plan.tmp_root, seat, self.uid_of(seat))

    def _on_server_death(self, server: fleet.Server) -> None:
        """Its children die with it: end their calls now, and start another."""
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
                self.answer(run.pending, refusal(run.verdict or Status.LOST, "its fork server died"))
                for file in run.files:
                    os.close(file)
            self.quarantine.append((now + QUARANTINE_S, seat))
        if len(self.death_times) == MAX_DEATHS and now - self.death_times[0] < 60.0:
            raise StartError(f"fork servers died {MAX_DEATHS} times within a minute")
        self.death_times.append(now)
        self._start_server(server.tier)

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
        self.next_housekeeping_t = now + 0.5
        while self.quarantine and self.quarantine[0][0] <= now:
            seat = self.quarantine.popleft()[1]
            self.clean(seat)
            self.free_seats.append(seat)
        orphans.reap(self._server_pids())
        self.sessions.evict_idle()
        self.sessions.end_busy()
        self.memory_is_low = memory_available_bytes() < self.settings.memory_low_bytes
        if self.memory_is_low and not self.sessions.evict_for_memory() and not self.runs:
            self.memory_is_low = False  # waiting would free nothing


def memory_available_bytes() -> int:
    """What the kernel says can still be had without swapping."""
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**62


def main() -> None:
    """Entry point: the settings are the last argument, as JSON; descriptor 0 is the client's socket."""
    gc.set_threshold(*GC_THRESHOLDS)
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
