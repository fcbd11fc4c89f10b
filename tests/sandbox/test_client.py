"""The client: every call ends once, in order, with the output of its code."""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox import SandboxError
from sandbox.client.client import Caller, Sandbox
from tests.sandbox.conftest import message_of, new_call, small_sandbox

Run = Callable[..., ToolResult]


def test_a_program_returns_its_output_and_the_value_of_its_last_expression(run: Run) -> None:
    result = run("print('out')\nimport sys\nprint('err', file=sys.stderr)\n[1, 2]")
    assert (result.status, result.stdout, result.stderr, result.value) == (
        Status.OK,
        "out\n",
        "err\n",
        "[1, 2]",
    )


@pytest.mark.parametrize("session", [None, "s"])
def test_the_cpu_time_of_a_short_call_is_counted(run: Run, session: str | None) -> None:
    """The clock of a process does not advance between ticks while a CPU timer is set."""
    result = run("sum(range(20_000))", session=session)
    assert 0.0001 < result.cpu_s <= 1.01 * result.wall_s + 0.001


def test_a_traceback_shows_frames_of_the_code_only(run: Run) -> None:
    result = run("import json\n\ndef f():\n    json.loads('{')\n\nf()")
    assert result.error is not None
    assert result.error.type == "JSONDecodeError"
    assert '"<code>", line 6' in result.error.traceback
    assert '"<code>", line 4' in result.error.traceback
    assert "decoder.py" not in result.error.traceback


def test_results_come_back_in_the_order_of_the_calls(sandbox: Sandbox) -> None:
    calls = [new_call(f"print({k} * 3)") for k in range(200)]
    results = sandbox.run_many(calls)
    assert [result.stdout for result in results] == [f"{k * 3}\n" for k in range(200)]
    assert [result.id for result in results] == [call.id for call in calls]


@pytest.mark.parametrize(
    ("code", "limit", "message"),
    [
        ("while True: pass", {"cpu_s": 0.3}, "CPU time limit of 0.3 s reached"),
        ("import time\ntime.sleep(600)", {"wall_s": 0.5}, "wall time limit of 0.5 s reached"),
    ],
)
def test_a_time_limit_stops_a_call_and_is_reported(
    run: Run, code: str, limit: dict[str, float], message: str
) -> None:
    result = run(code, **limit)
    assert (result.status, message_of(result)) == (Status.TIMEOUT, message)


def test_a_timeout_shows_the_line_in_nondeterministic_runs() -> None:
    with small_sandbox(deterministic=False) as sandbox:
        result = sandbox.run(new_call("print('before')\nwhile True:\n    pass", cpu_s=0.3))
    assert result.status is Status.TIMEOUT
    assert result.stdout == "before\n"
    assert result.error is not None
    assert "line 2" in result.error.traceback or "line 3" in result.error.traceback


def test_long_output_keeps_head_and_tail_and_counts_what_was_dropped(sandbox: Sandbox) -> None:
    call = ToolCall(id="long", code="print('a' * 500 + 'b' * 500, end='')", limits=Limits(output_bytes=100))
    result = sandbox.run(call)
    assert result.stdout == "a" * 50 + "\n... [900 bytes dropped] ...\n" + "b" * 50
    assert result.dropped_bytes == 900


def test_a_cut_does_not_split_a_character(sandbox: Sandbox) -> None:
    call = ToolCall(id="cut", code="print('\u00e9' * 1000, end='')", limits=Limits(output_bytes=101))
    assert "\ufffd" not in sandbox.run(call).stdout


def test_equal_calls_give_equal_results_except_for_the_clock(sandbox: Sandbox) -> None:
    code = (
        "import random, uuid, tempfile, os\nimport numpy as np\n"
        "print(random.random(), uuid.uuid4(), np.random.rand(), np.random.default_rng().random(), object())\n"
        "print(hash('text'), {'b', 'a', 'c'}, os.getcwd(), tempfile.mkdtemp())\nrandom.seed()\nrandom.random()"
    )
    results = sandbox.run_many(new_call(code, seed=7, id=f"equal-{k}") for k in range(12))
    shown = {(result.status, result.stdout, result.value) for result in results}
    assert len(shown) == 1
    assert results[0].status is Status.OK


def test_another_seed_gives_other_streams(run: Run) -> None:
    code = "import random\nimport numpy as np\n(random.random(), np.random.rand(), np.random.default_rng().random())"
    first, second = (ast.literal_eval(run(code, seed=seed).value or "") for seed in (1, 2))
    assert all(a != b for a, b in zip(first, second, strict=True))


def test_a_repeated_id_in_flight_is_rejected_with_the_reason(sandbox: Sandbox) -> None:
    first = sandbox.submit(new_call("import time\ntime.sleep(1)", id="twice"))
    second = sandbox.run(new_call("1", id="twice"))
    assert second.status is Status.REJECTED
    assert "already in flight" in message_of(second)
    assert first.result().status is Status.OK


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"limits": Limits(wall_s=-1.0)}, "limits.wall_s is -1.0; give seconds above 0"),
        ({"limits": Limits(cpu_s=-0.5)}, "limits.cpu_s is -0.5; give seconds above 0"),
        ({"limits": Limits(cpu_s=float("nan"))}, "limits.cpu_s"),
        ({"limits": Limits(memory_bytes=5)}, "limits.memory_bytes"),
        ({"limits": Limits(memory_bytes=2**80)}, "limits.memory_bytes is"),
        ({"limits": Limits(output_bytes=0)}, "limits.output_bytes"),
        ({"code": "x" * 10_000_000}, "code has 10000000 characters; at most 1048576 are run"),
        ({"session": ""}, "session"),
        ({"id": ""}, "id"),
    ],
)
def test_a_malformed_call_is_rejected_with_the_remedy(
    sandbox: Sandbox, fields: dict[str, object], message: str
) -> None:
    result = sandbox.run(ToolCall(**{"id": "bad", "code": "1", **fields}))  # type: ignore[arg-type]
    assert result.status is Status.REJECTED
    assert message in message_of(result)


def test_cancelling_ends_a_running_call_and_a_waiting_one(sandbox: Sandbox) -> None:
    with small_sandbox(slots_per_worker=1) as small:
        running = small.submit(new_call("import time\ntime.sleep(600)", id="running"))
        waiting = small.submit(new_call("1", id="waiting"))
        small.cancel("waiting")
        small.cancel("running")
        assert waiting.result(60).status is Status.CANCELLED
        assert running.result(60).status is Status.CANCELLED
        assert small.run(new_call("2")).value == "2"


def test_a_full_queue_rejects_with_the_time_of_the_next_try() -> None:
    with small_sandbox(slots_per_worker=1, queue_limit=2, waits_when_full=False) as small:
        futures: list[Future[ToolResult]] = [
            small.submit(new_call("import time\ntime.sleep(0.3)")) for _ in range(12)
        ]
        results = [future.result(60) for future in futures]
    statuses = [result.status for result in results]
    assert set(statuses) == {Status.OK, Status.REJECTED}
    rejected = next(result for result in results if result.status is Status.REJECTED)
    assert "retry after" in message_of(rejected)


def test_the_default_client_waits_for_room() -> None:
    with small_sandbox(slots_per_worker=2, queue_limit=3) as small:
        results = small.run_many(new_call(f"print({k})") for k in range(120))
        assert small.num_refusals > 0
    assert [(result.status, result.stdout) for result in results] == [
        (Status.OK, f"{k}\n") for k in range(120)
    ]


def test_a_queued_call_can_be_cancelled_and_keeps_its_id() -> None:
    with small_sandbox(slots_per_worker=1, queue_limit=1) as small:
        blocker = small.submit(new_call("import time\ntime.sleep(600)", id="blocker"))
        while small.status()["running"] < 1:
            time.sleep(0.02)
        futures = {name: small.submit(new_call("1", id=name)) for name in ("queued", "kept", "later")}
        while small.num_refusals < 1:
            time.sleep(0.02)
        assert small.run(new_call("2", id="later")).status is Status.REJECTED  # in flight already
        small.cancel("later")
        assert futures["later"].result(60).status is Status.CANCELLED
        small.cancel("blocker")
        assert blocker.result(60).status is Status.CANCELLED
        assert [futures[name].result(60).value for name in ("queued", "kept")] == ["1", "1"]


def test_a_cancel_that_the_refusal_overtakes_is_kept() -> None:
    with small_sandbox(slots_per_worker=1, queue_limit=1) as small:
        small.submit(new_call("import time\ntime.sleep(600)", id="blocker"))
        while small.status()["running"] < 1:
            time.sleep(0.02)
        futures = [small.submit(new_call("1", id=f"withdrawn {k}")) for k in range(4)]
        for k in range(4):
            small.cancel(f"withdrawn {k}")
        small.cancel("blocker")
        assert {future.result(60).status for future in futures} == {Status.CANCELLED}


class HandLink:
    """A link to no supervisor; `at_reap` runs while its owner releases it."""

    def __init__(self, at_reap: Callable[[], object] = lambda: None) -> None:
        self.at_reap = at_reap

    def handshake(self) -> dict[str, object]:
        return {}

    def listen(self) -> None: ...

    def send(self, frame: bytes) -> None: ...

    def close(self) -> None: ...

    def reap(self) -> None:
        self.at_reap()


class HandCaller(Caller):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[HandLink] = []

    def _new_link(self) -> Any:
        if not self.links:
            raise ConnectionResetError("hung up")
        return self.links.pop(0)


def test_a_call_for_the_next_supervisor_does_not_end_with_the_last_one() -> None:
    caller = HandCaller()
    later: list[Future[ToolResult]] = []
    first = HandLink(at_reap=lambda: later.append(caller.submit(new_call("2"))))
    caller.links = [first, HandLink()]
    early = caller.submit(new_call("1"))
    caller.on_death(first)  # type: ignore[arg-type]
    assert early.result(0).status is Status.LOST
    assert not later[0].done()
    caller.close()
    assert later[0].result(0).status is Status.CANCELLED


def test_a_broken_handshake_is_a_lost_call() -> None:
    result = HandCaller().submit(new_call("1")).result(0)
    assert result.status is Status.LOST
    assert "cannot start: hung up" in message_of(result)


def test_closing_ends_kept_calls() -> None:
    small = small_sandbox(slots_per_worker=1, queue_limit=1)
    futures = [small.submit(new_call("import time\ntime.sleep(600)")) for _ in range(6)]
    while small.num_refusals < 2:
        time.sleep(0.02)
    small.close()
    assert {future.result(10).status for future in futures} == {Status.CANCELLED}


def test_waiting_calls_run_after_the_fork_servers_restart() -> None:
    with small_sandbox(slots_per_worker=2) as small:
        running = [small.submit(new_call("import time\ntime.sleep(600)")) for _ in range(2)]
        while small.status()["running"] < 2:
            time.sleep(0.02)
        waiting = [small.submit(new_call(f"{k}")) for k in range(5)]
        os.kill(small.status()["zygotes"][0], signal.SIGKILL)
        assert {future.result(10).status for future in running} == {Status.LOST}
        assert [future.result(60).value for future in waiting] == [str(k) for k in range(5)]


def test_waiting_calls_are_lost_if_no_fork_server_restarts(tmp_path: Path) -> None:
    stop, python = tmp_path / "stop", tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ -e {stop} ] && exec sleep 100\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with Sandbox(workers=1, preload=(), python=str(python), server_wait_s=1.0) as own:
        stop.touch()
        for pid in own.status()["zygotes"]:
            os.kill(pid, signal.SIGKILL)
        while own.status()["zygotes"] == own.started["zygotes"]:
            time.sleep(0.02)
        results = [own.submit(new_call("1", session=name)).result(60) for name in (None, "s")]
        assert [result.status for result in results] == [Status.LOST] * 2
        stop.unlink()


def test_an_affinity_that_does_not_exist_is_refused_with_the_available_cores() -> None:
    with pytest.raises(SandboxError, match="this machine offers"):
        Sandbox(workers=1, preload=(), affinity=(9999,))


def test_closing_ends_running_calls(sandbox: Sandbox) -> None:
    small = small_sandbox()
    future = small.submit(new_call("import time\ntime.sleep(600)"))
    small.close()
    assert future.result(10).status is Status.CANCELLED
    assert small.run(new_call("1")).status is Status.REJECTED


def test_a_module_that_is_not_installed_is_named_at_start() -> None:
    with pytest.raises(SandboxError, match="no_such_module"):
        Sandbox(workers=1, preload=("no_such_module",))


def test_too_little_isolation_is_refused_with_the_missing_layers() -> None:
    with pytest.raises(SandboxError, match=r"'files' is required.*landlock \(switched off\)"):
        Sandbox(workers=1, preload=(), disabled_layers=("landlock",))


def test_memory_is_limited(sandbox: Sandbox) -> None:
    limits = Limits(cpu_s=10, wall_s=120, memory_bytes=64 * 2**20)
    call = ToolCall(id="memory", code="print('start')\nb = bytearray(200 * 2**20)", limits=limits)
    result = sandbox.run(call)
    assert (result.status, result.stdout) == (Status.MEMORY, "start\n")


def test_a_long_call_gets_idle_priority() -> None:
    with Sandbox(workers=1, preload=()) as small:
        future = small.submit(new_call("while True: pass", id="long", cpu_s=600.0, wall_s=900.0))
        zygote = small.started["zygotes"][0]
        children = Path(f"/proc/{zygote}/task/{zygote}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.02)
        while os.sched_getscheduler(int(found[0])) != os.SCHED_IDLE:
            time.sleep(0.05)
        small.cancel("long")
        assert future.result(60).status is Status.CANCELLED


def test_a_file_is_gone_in_the_next_call() -> None:
    with small_sandbox(slots_per_worker=1) as small:
        assert small.run(new_call("open('a', 'w').write('x')\nimport os\nos.listdir()")).value == "['a']"
        assert small.run(new_call("import os\nos.listdir()")).value == "[]"


def test_killing_the_supervisor_ends_every_call_and_the_next_restarts_it() -> None:
    with small_sandbox() as small:
        running = small.submit(new_call("import time\ntime.sleep(600)"))
        small.run(new_call("x = 1", session="kept"))
        os.kill(small.started["supervisor"], signal.SIGKILL)
        assert running.result(10).status is Status.LOST
        assert _until_ok(small).value == "4"
        assert small.run(new_call("x", session="kept")).status is Status.SESSION_LOST
        small.close_session("kept")
        assert small.run(new_call("5", session="kept")).value == "5"


def _until_ok(sandbox: Sandbox) -> ToolResult:
    for _ in range(200):
        result = sandbox.run(new_call("4"))
        if result.status is Status.OK:
            return result
        time.sleep(0.05)
    raise AssertionError("no call succeeded after the kill")
