"""`main` of a supervisor process: the last argument holds its settings, descriptor 0 is its connection."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys

from sandbox.server.start_up import StartError
from sandbox.server.supervisor import Supervisor
from sandbox.settings import Settings
from sandbox.wire import Kind, pack

GC_THRESHOLDS = (50_000, 20, 20)
"""A call leaves no cycles; with 45,000 waiting calls, a collection would examine each in vain."""


def main() -> None:
    """Serve the client until it disconnects; report the reason when the supervisor cannot start."""
    gc.set_threshold(*GC_THRESHOLDS)
    link = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    supervisor = None
    try:
        supervisor = Supervisor(Settings.from_text(sys.argv[-1]))
        supervisor.start_servers()
        supervisor.greet(supervisor.add_client(link))
        supervisor.serve()
    except (StartError, OSError) as error:
        with contextlib.suppress(OSError):
            link.setblocking(True)
            link.sendall(pack(Kind.FAILED, 0, str(error).encode()))
    finally:
        if supervisor is not None:
            supervisor.close()
