"""Timers of running calls: their targets and their times."""

from __future__ import annotations

import itertools
import math
import os
import signal
import socket
import time
from pathlib import Path
from typing import cast

import pytest

from records.tool_call import Limits, Status
from sandbox.child.fork_server import Op
from sandbox.layers import Layer
from sandbox.server.child_bytes import CellInbox
from sandbox.server.fork_servers import Server
from sandbox.server.supervisor_state import Connection, Pending, Run
from sandbox.server.time_limits import (
    DECAY_AFTER_S,
    GRACE_S,
    HUNG_AFTER_S,
    LOOK_EVERY_S,
    SET_UP_WITHIN_S,
    Watch,
)
from sandbox.settings import Settings
from tests.sandbox.conftest import STUBBORN, new_call, small_sandbox, state_of


def a_run(wall_s: float = 20.0, *, cpu_s: float = 10.0, is_set_up: bool = True, start_t: float = 0.0) -> Run:
    connection = Connection(socket.socketpair()[0])
    pending = Pending(connection, 1, None, Limits(wall_s=wall_s, cpu_s=cpu_s), b"", 0, 0.0)
    inbox = CellInbox()
    inbox.is_set_up = is_set_up
    return Run(pending=pending, seat=0, server=cast("Server", None), start_t=start_t, inbox=inbox)


def test_a_finished_run_sets_no_timer() -> None:
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


def test_a_run_has_one_timer_however_often_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, run, clock = Watch(Settings()), a_run(cpu_s=0.001), [100.0]
    num_checks = 0

    class Measuring:
        def ask(self, op: Op, *_: object, **__: object) -> None:
            nonlocal num_checks
            if op is Op.CHECK:
                num_checks += 1
                watch.on_used(run, run.pending.limits.cpu_s + GRACE_S - 0.1)

    monkeypatch.setattr("sandbox.server.time_limits.time.monotonic", lambda: clock[0])
    run.server, run.start_t = cast("Server", Measuring()), clock[0]
    watch.start(run, clock[0])
    while clock[0] < 102.0 and num_checks < 1000:
        clock[0] = watch.next_t() or clock[0]
        watch.act(clock[0])
    assert 17 <= num_checks <= 21


class Recorder:
    """Fake fork server that records requests and their times."""

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock
        self.asked: list[tuple[float, Op]] = []
        self.process = self
        self.killed_t: float | None = None

    def ask(self, op: Op, *_: object, **__: object) -> None:
        self.asked.append((self.clock[0], op))

    def kill(self) -> None:
        self.killed_t = self.killed_t or self.clock[0]


def _watched(run: Run, until: float, set_up_t: float = math.inf) -> Recorder:
    """Watch a run from second 100 on, whose child is set up at `set_up_t`."""
    watch, clock = Watch(Settings(niceness=0, decayed_niceness=19)), [100.0]
    server = Recorder(clock)
    run.server = cast("Server", server)
    watch.start(run, 100.0)
    assert run.inbox is not None
    while (at := watch.next_t()) is not None and at < until:
        clock[0] = at
        run.inbox.is_set_up = at >= set_up_t
        watch.act(at)
    return server


def test_cpu_time_is_read_from_the_earliest_possible_limit_on() -> None:
    server = _watched(a_run(cpu_s=3.0, start_t=100.0), until=110.0, set_up_t=100.0)
    checks = [at for at, op in server.asked if op is Op.CHECK]
    assert checks[0] >= 100.0 + (3.0 + GRACE_S) / (os.cpu_count() or 1)
    assert max(later - at for at, later in itertools.pairwise(checks)) <= LOOK_EVERY_S + 1e-6
    assert [op for _, op in server.asked[:2]] == [Op.RENICE, Op.RENICE]


def test_wall_time_counts_from_the_set_up_of_the_child() -> None:
    run = a_run(wall_s=2.0, is_set_up=False, start_t=100.0)
    server = _watched(run, until=150.0, set_up_t=130.0)
    assert server.asked[0][0] >= 130.0
    assert 131.75 <= next(at for at, op in server.asked if op is Op.ANNOUNCE) <= 132.25
    assert run.limit_hit == "wall time limit of 2 s reached"


def test_a_child_without_set_up_is_killed_and_then_its_hung_fork_server() -> None:
    run = a_run(wall_s=2.0, is_set_up=False, start_t=100.0)
    server = _watched(run, until=100.0 + SET_UP_WITHIN_S + HUNG_AFTER_S + 5.0)
    assert server.asked[0] == (100.0 + SET_UP_WITHIN_S, Op.KILL)
    assert {op for _, op in server.asked} == {Op.KILL}
    assert not run.limit_hit  # no limit of the code's
    assert run.inbox is not None
    run.inbox.is_set_up = True
    assert not run.is_set_up()  # given up: its last messages change nothing
    assert server.killed_t == 100.0 + SET_UP_WITHIN_S + HUNG_AFTER_S


def _child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.01)
    return int(found[0])


@pytest.mark.hostile
def test_a_limit_that_the_kernel_enforced_is_a_timeout() -> None:
    with small_sandbox() as own:
        if Layer.RLIMITS not in {state["layer"] for state in own.started["states"] if state["used"]}:
            pytest.skip("needs the layer rlimits")
        zygote, supervisor = own.started["zygotes"][0], own.started["supervisor"]
        future = own.submit(new_call(STUBBORN, cpu_s=1.0))
        child = _child_of(zygote)
        for pid in (zygote, supervisor):
            os.kill(pid, signal.SIGSTOP)
        while state_of(child) != "Z":
            time.sleep(0.05)
        for pid in (zygote, supervisor):
            os.kill(pid, signal.SIGCONT)
        result = future.result()
        assert (result.status, result.error and result.error.message) == (
            Status.TIMEOUT,
            "CPU time limit of 1 s reached",
        )
