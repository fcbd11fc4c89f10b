"""`hand_over`: runs this process' job in the job server of the run, if there is one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

VARIABLE = "RSTAR2_JOB_SERVERS"
"""Environment variable: a folder with one socket per package of a job server."""
LENGTH = struct.Struct("!I")
"""Length of a request in bytes; sent first, together with the standard streams."""
STARTED = b"s"
"""Sent by the server once the job runs; the job's status follows at its end."""
STATUS = struct.Struct("!i")
"""A status of `os.waitpid`."""
STREAMS = (0, 1, 2)
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What the server requires to run a job in place of the process that requests it."""

    package: str
    """Package of `python -m PACKAGE`."""
    arguments: list[str]
    """The whole `sys.argv`."""
    folder: str
    environment: dict[str, str]

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> JobRequest:
        return cls(**json.loads(data))


def hand_over(package: str, *, commands: Collection[str]) -> None:
    """Run this process' command line in the job server and exit with its status; return if there is no server.

    Args:
        package: package whose `__main__` this process is.
        commands: commands that use the server's imports; any other command returns at once.
    """
    folder = os.environ.get(VARIABLE)
    if folder is None or not set(sys.argv[1:2]) & set(commands):
        return
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    request = JobRequest(
        package=package, arguments=sys.argv, folder=os.getcwd(), environment=environment
    ).to_bytes()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(str(Path(folder) / package))
            socket.send_fds(server, [LENGTH.pack(len(request))], STREAMS)
            server.sendall(request)
            if server.recv(1) != STARTED:
                return
        except OSError:
            return
        _exit_like(_status(server))


def _status(server: socket.socket) -> int:
    """Forward signals to the job until it ends."""

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            server.send(bytes([number]))

    for number in _FORWARDED:
        signal.signal(number, forward)
    status = b""
    while len(status) < STATUS.size:
        part = server.recv(STATUS.size - len(status))
        if not part:
            print(
                "error: the job server of this run has ended; run again, finished work is kept",
                file=sys.stderr,
            )
            raise SystemExit(2)
        status += part
    return STATUS.unpack(status)[0]


def _exit_like(status: int) -> None:
    """Exit as the job did; if a signal ended it, by the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    raise SystemExit(code)
