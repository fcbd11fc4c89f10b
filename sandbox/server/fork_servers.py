"""`Server` and `Fleet`: the fork servers, as the supervisor handles them."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandbox.child.fork_server import REPLY, REQUEST, Op
from sandbox.child.jail import JailPlan
from sandbox.server.start_up import StartError
from sandbox.settings import Settings

PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
START_WITHIN_S = 120.0
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from sandbox.{module} import main; main()"
_THREADS = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


def clean_environment() -> dict[str, str]:
    """Return the environment of the sandbox's processes; from the caller it takes the library path only."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "2",
        "LD_BIND_NOW": "1",
        "MPLBACKEND": "Agg",
        **_THREADS,
    }
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


def command(python: str, module: str, orders: str) -> list[str]:
    """Return the command line that runs `main` of a module of this package in a fresh interpreter."""
    return [python, "-s", "-P", "-B", "-c", _BOOT.format(module=module), PACKAGE_ROOT, orders]


@dataclass(slots=True, eq=False)
class Server:
    """One running fork server."""

    tier: int
    process: subprocess.Popen[bytes]
    control: socket.socket
    is_ready: bool = False
    start_t: float = field(default_factory=time.monotonic)
    seats: set[int] = field(default_factory=set)
    backlog: deque[tuple[bytes, tuple[int, ...]]] = field(default_factory=deque)

    def ask(
        self, op: Op, seat: int, *, job_bytes: int = 0, cpu_s: float = 0.0, descriptors: tuple[int, ...] = ()
    ) -> None:
        """Queue a request; it waits here while the socket is full. The caller keeps its descriptors open meanwhile."""
        self.backlog.append((REQUEST.pack(op, seat, job_bytes, cpu_s), descriptors))
        self.flush()

    def flush(self) -> bool:
        """Send queued requests; return True when none is left."""
        while self.backlog:
            message, descriptors = self.backlog[0]
            rights = (
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            )
            try:
                self.control.sendmsg([message], rights)
            except BlockingIOError:
                return False
            except (
                OSError
            ):  # the server died, as its socket reports; or too much is in flight, for a later flush
                return True
            self.backlog.popleft()
        return True

    def hang_up(self) -> None:
        """Shut the connection down: a child stopped before its set-up still holds the other end open."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Kill the server (its children follow) and reap it."""
        self.process.kill()
        self.process.wait()
        self.control.close()


class Fleet:
    """Chooses the fork server for a call, and measures how long calls wait while none is ready."""

    def __init__(self, settings: Settings) -> None:
        self._wait_s = settings.server_wait_s
        self._ready_t = time.monotonic()

    def pick(self, servers: Collection[Server], tier: int) -> Server | None:
        """Return the least busy ready server of a tier, else of the next richer tier, else any; None: none is ready."""
        best, spare = None, None
        for server in servers:
            if not server.is_ready:
                continue
            if server.tier < tier:
                spare = spare or server
            elif best is None or (server.tier, len(server.seats)) < (best.tier, len(best.seats)):
                best = server
        return best or spare

    def keep_house(self, servers: Collection[Server], now: float) -> bool:
        """Send queued requests and kill servers that do not start; return False when none was ready for too long."""
        for server in servers:
            server.flush()
            if not server.is_ready and now - server.start_t > START_WITHIN_S:
                server.process.kill()
            if server.process.poll() is not None:
                server.hang_up()
        if any(server.is_ready for server in servers):
            self._ready_t = now
        return now - self._ready_t <= self._wait_s


def start_server(settings: Settings, plan: JailPlan, tier: int, modules: tuple[str, ...]) -> Server:
    """Start the fork server of a tier; it later sends READY or FAILED on its socket."""
    own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    orders = {
        "control": other_end.fileno(),
        "package_root": PACKAGE_ROOT,
        "modules": list(modules),
        "python_path": settings.python_path,
        "num_seats": settings.num_slots,
        "niceness": settings.niceness,
        "affinity": settings.affinity,
        "plan": {
            "layers": sorted(plan.layers),
            "landlock_abi": plan.landlock_abi,
            "first_uid": plan.first_uid,
            "places": asdict(plan.places),
            "readable": plan.readable,
            "allow_processes": plan.allow_processes,
        },
    }
    process = subprocess.Popen(
        command(settings.python, "child.fork_server", json.dumps(orders)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        pass_fds=(other_end.fileno(),),
        cwd="/",
    )
    other_end.close()
    own_end.setblocking(False)
    return Server(tier, process, own_end)


def await_ready(server: Server, settings: Settings) -> None:
    """Wait until a new fork server is ready.

    Raises:
        StartError: the server died, a preloaded module is missing, or the start timed out.
    """
    server.control.settimeout(START_WITHIN_S)
    try:
        message = server.control.recv(4096)
    except TimeoutError as error:
        raise StartError(f"a fork server did not start within {START_WITHIN_S:.0f} s") from error
    server.control.setblocking(False)
    if len(message) < REPLY.size:
        raise StartError(
            f"a fork server died at start; for its error, run: {settings.python} -m sandbox doctor"
        )
    if REPLY.unpack_from(message)[0] == Op.FAILED:
        reason = message[REPLY.size :].decode("utf-8", "replace")
        raise StartError(
            f"a fork server of {settings.python} could not start: {reason}; install what is missing there, "
            f"or take it out of preload ({', '.join(settings.preload)})"
        )
    server.is_ready = True
