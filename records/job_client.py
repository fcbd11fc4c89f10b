"""`hand_over`: let the job server of a run do this process' job, where there is one."""

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
"""Of the environment: a folder with one socket for each package that a job server serves."""
LENGTH = struct.Struct("!I")
"""Of a request in bytes; sent first, with the standard streams beside it."""
STARTED = b"s"
"""Sent by the server once the job runs; its status follows when it ends."""
STATUS = struct.Struct("!i")
"""Of `os.waitpid`."""
STREAMS = (0, 1, 2)
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What the server needs to run a job as the process that asks for it would."""

    package: str
    """Of `python -m PACKAGE`."""
    arguments: list[str]
    """`sys.argv` whole."""
    folder: str
    environment: dict[str, str]

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> JobRequest:
        return cls(**json.loads(data))


def hand_over(package: str, *, commands: Collection[str]) -> None:
    """Run this process' command line in the job server and exit with its status; return where there is no server.

    Args:
        package: whose `__main__` this process is.
        commands: those that use what the server has imported; any other command returns at once.
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
    """End as the job ended, by the same signal where it was one."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    raise SystemExit(code)
