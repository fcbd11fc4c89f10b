"""The supervisor's side of its fork servers: start them, send requests, notice their death."""

from __future__ import annotations

import array
import json
import os
import socket
import subprocess
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.isolation import Layer
from sandbox.jail import JailPlan
from sandbox.settings import Settings
from sandbox.zygote import REQUEST, Op

PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from sandbox.{module} import main; main()"
_THREADS = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


def clean_environment() -> dict[str, str]:
    """What our processes see of the environment: nothing of the caller's but where libraries lie."""
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
    """The command line that runs `main` of a module of this package in a fresh interpreter."""
    return [python, "-s", "-P", "-B", "-c", _BOOT.format(module=module), PACKAGE_ROOT, orders]


@dataclass(slots=True, eq=False)
class Server:
    """One running fork server."""

    tier: int
    process: subprocess.Popen[bytes]
    control: socket.socket
    is_ready: bool = False
    seats: set[int] = field(default_factory=set)
    backlog: deque[tuple[bytes, tuple[int, ...]]] = field(default_factory=deque)

    def ask(
        self, op: Op, seat: int, *, job_bytes: int = 0, cpu_s: float = 0.0, descriptors: tuple[int, ...] = ()
    ) -> None:
        """Send a request; it waits here while the socket is full. The caller keeps its descriptors open meanwhile."""
        self.backlog.append((REQUEST.pack(op, seat, job_bytes, cpu_s), descriptors))
        self.flush()

    def flush(self) -> bool:
        """Send what waits; True when nothing is left."""
        while self.backlog:
            message, descriptors = self.backlog[0]
            rights = (
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            )
            try:
                self.control.sendmsg([message], rights)
            except BlockingIOError:
                return False
            except OSError:  # it died; its end of the socket will tell
                return True
            self.backlog.popleft()
        return True

    def stop(self) -> None:
        """Kill it (its children follow) and reap it."""
        self.process.kill()
        self.process.wait()
        self.control.close()


def start_server(settings: Settings, plan: JailPlan, tier: int, modules: tuple[str, ...]) -> Server:
    """Start the fork server of a tier; it says READY or FAILED on its socket later."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    orders = {
        "control": theirs.fileno(),
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
            "tmp_root": plan.tmp_root,
            "readable": plan.readable,
            "allow_processes": plan.allow_processes,
        },
    }
    process = subprocess.Popen(
        command(settings.python, "zygote", json.dumps(orders)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        pass_fds=(theirs.fileno(),),
        cwd="/",
    )
    theirs.close()
    ours.setblocking(False)
    return Server(tier, process, ours)


def uid_of(plan: JailPlan, seat: int) -> int | None:
    """The user id of a seat, where seats have one."""
    return plan.first_uid + seat if Layer.SLOT_UID in plan.layers else None
