"""Timers of running calls: who is woken, and when."""

from __future__ import annotations

import socket
from typing import cast

from sandbox.fleet import Server
from sandbox.records import Limits
from sandbox.runs import Connection, Pending, Run
from sandbox.settings import Settings
from sandbox.watch import DECAY_AFTER_S, Watch


def a_run(wall_s: float = 20.0) -> Run:
    connection = Connection(socket.socketpair()[0])
    pending = Pending(connection, 1, None, Limits(wall_s=wall_s), b"", 0, 0.0)
    return Run(pending=pending, seat=0, server=cast("Server", None), start_t=0.0)


def test_a_run_that_is_over_wakes_nobody() -> None:
    watch = Watch(Settings())
    over, running = a_run(), a_run()
    watch.start(over, 100.0)
    watch.start(running, 101.0)
    assert watch.next_t() == 100.0 + DECAY_AFTER_S
    over.is_over = True
    assert watch.next_t() == 101.0 + DECAY_AFTER_S
    running.is_over = True
    assert watch.next_t() is None


def test_a_limit_shorter_than_the_first_look_is_kept() -> None:
    watch = Watch(Settings())
    watch.start(a_run(wall_s=0.05), 100.0)
    assert watch.next_t() == 100.05
