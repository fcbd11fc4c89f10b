"""Sessions: state lives from cell to cell, and every later cell reports its loss."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from records.tool_call import Limits, Status, ToolResult
from sandbox import Sandbox
from tests.sandbox.conftest import STUBBORN, message_of, new_call, small_sandbox

Run = Callable[..., ToolResult]


def test_a_session_keeps_its_state_separate_from_others(run: Run) -> None:
    run("x = 1\nimport math", session="a")
    run("x = 2", session="b")
    assert run("x + math.floor(1.5)", session="a").value == "2"
    assert run("x", session="b").value == "2"
    assert run("x").status is Status.ERROR


def test_cells_of_a_session_run_one_after_the_other(sandbox: Sandbox) -> None:
    calls = [new_call("n = 0", session="chain")] + [new_call("n += 1\nn", session="chain") for _ in range(20)]
    assert [result.value for result in sandbox.run_many(calls)] == [None, *(str(k) for k in range(1, 21))]


def test_a_cell_stopped_by_its_cpu_limit_keeps_the_state(run: Run) -> None:
    run("x = 5", session="soft")
    assert run("while True: pass", session="soft", cpu_s=0.3).status is Status.TIMEOUT
    assert run("x", session="soft").value == "5"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os\nos._exit(3)", Status.CRASH),
        (STUBBORN, Status.TIMEOUT),
        ("while True: print('x' * 10**6)", Status.OUTPUT_LIMIT),
    ],
    ids=["crash", "hard timeout", "flood"],
)
def test_a_session_ended_by_its_code_reports_a_crash_until_closed(
    sandbox: Sandbox, run: Run, code: str, status: Status
) -> None:
    name = f"ended by {status}"
    run("x = 1", session=name)
    assert run(code, session=name, cpu_s=0.5).status is status
    for _ in range(2):  # twice: the second caller must not get a new session unnoticed
        result = run("x", session=name)
        assert (
            result.status is Status.CRASH
        )  # a loss of the infrastructure would abort the rollout, without reward
        assert message_of(result) == f"session is gone: its last cell ended as {status}"
    sandbox.close_session(name)
    assert run("'x' in globals()", session=name).value == "False"


def test_a_limit_that_a_cell_caught_is_reported_and_the_state_survives(run: Run) -> None:
    code = "n = 0\ntry:\n    for i in range(10**10): n += i\nexcept Exception: print(n)"
    result = run(code, session="caught", cpu_s=0.3)
    assert (result.status, result.stdout) == (Status.TIMEOUT, "")
    assert run("n > 0", session="caught").value == "True"


def test_no_output_of_a_cell_ends_the_supervisor(sandbox: Sandbox, run: Run) -> None:
    forged = "import os, struct\ntext = b'{\"status\": []}'\nos.write(3, struct.pack('<I', len(text)) + text)"
    before = sandbox.status()["supervisor"]
    assert run(forged, session="forger").status is Status.CRASH
    assert run("1").value == "1"
    assert sandbox.status()["supervisor"] == before


def test_a_reused_session_name_keeps_its_new_interpreter() -> None:
    with small_sandbox() as small:
        small.run(new_call("x = 1", session="again"))
        small.close_session("again")
        small.run(new_call("x = 2", session="again"))
        while small.status()["sessions"] > 1:
            time.sleep(0.02)
        assert small.run(new_call("x", session="again")).value == "2"
        small.close_session("again")
        while small.status()["sessions"]:
            time.sleep(0.02)


def test_a_waiting_cell_can_be_cancelled(sandbox: Sandbox) -> None:
    running = sandbox.submit(new_call("import time\ntime.sleep(0.5)\n1", session="line"))
    waiting = sandbox.submit(new_call("x = 1", session="line", id="second of the line"))
    sandbox.status()  # it now waits behind the other, not in the queue
    sandbox.cancel("second of the line")
    assert waiting.result(60).status is Status.CANCELLED
    assert running.result(60).value == "1"
    assert sandbox.run(new_call("'x' in globals()", session="line")).value == "False"


def test_the_cell_after_a_cancelled_one_is_lost_without_a_crash() -> None:
    """Both the cancel and the outcome are ready when the supervisor wakes: it must start nothing on a killed child."""
    with small_sandbox() as small:
        small.run(new_call("import time", session="s"))
        first = small.submit(new_call("time.sleep(0.3)", session="s", id="first"))
        second = small.submit(new_call("1", session="s"))
        while small.status()["running"] < 1:
            time.sleep(0.01)
        supervisor = small.started["supervisor"]
        os.kill(supervisor, signal.SIGSTOP)
        small.cancel("first")
        time.sleep(0.6)
        os.kill(supervisor, signal.SIGCONT)
        ended = (first.result(60).status, second.result(60).status)
    assert ended in ((Status.CANCELLED, Status.SESSION_LOST), (Status.OK, Status.OK))


def test_output_belongs_to_its_own_cell(run: Run) -> None:
    assert run("print('one')", session="out").stdout == "one\n"
    assert run("print('two')\ninput()", session="out", stdin="typed").stdout == "two\n"


def test_a_session_with_threads_between_cells_ends_as_a_crash() -> None:
    burn = "import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn).start()"
    with small_sandbox() as small:
        assert small.run(new_call(burn, session="busy")).status is Status.OK
        while small.status()["sessions"]:
            time.sleep(0.05)
        result = small.run(new_call("1", session="busy"))
    assert result.status is Status.CRASH
    assert "between two cells" in message_of(result)


def test_a_cell_is_not_charged_for_earlier_cells(run: Run) -> None:
    burn = "import threading\nthreading.Thread(target=lambda: sum(range(12_000_000))).start()"
    run(burn, session="charged", cpu_s=10.0)
    time.sleep(1.5)
    for _ in range(3):
        assert run("1", session="charged", cpu_s=0.2).status is Status.OK


FILL = "try:\n    x = bytearray({} * 2**20)\nexcept MemoryError:\n    x = None\nx is None"


def test_each_cell_has_its_own_memory_limit(sandbox: Sandbox) -> None:
    def limited(mib: int, take: int) -> ToolResult:
        limits = Limits(cpu_s=10.0, wall_s=120.0, memory_bytes=mib * 2**20)
        return sandbox.run(replace(new_call(FILL.format(take), session="memory"), limits=limits))

    assert limited(512, 300).value == "False"
    assert limited(128, 300).value == "True"
    assert limited(512, 300).value == "False"
    refused = limited(1024, 1)
    assert refused.status is Status.REJECTED
    assert "began with" in message_of(refused)


NICENESS = """
import os, threading, time
seen = []
def look():
    while len(seen) < 400:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        time.sleep(0.002)
threading.Thread(target=look).start()
"""


def test_threads_are_stepped_back_with_their_call() -> None:
    with Sandbox(workers=1, preload=(), niceness=0, decayed_niceness=5) as small:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        result = small.run(new_call(NICENESS + "while len(seen) < 400: time.sleep(0.01)\nseen[0], seen[-1]"))
    assert result.value == f"({before}, {min(19, before + 5)})"


def test_an_idle_session_is_evicted_and_reported() -> None:
    with small_sandbox(session_idle_s=0.2) as small:
        small.run(new_call("x = 1", session="idle"))
        while small.status()["sessions"]:
            time.sleep(0.1)
        result = small.run(new_call("x", session="idle"))
    assert result.status is Status.SESSION_LOST
    assert "idle" in message_of(result)


def test_the_session_idle_longest_is_evicted_first() -> None:
    with small_sandbox(max_sessions=2) as small:
        small.run(new_call("x = 1", session="first"))
        small.run(new_call("x = 2", session="second"))
        statuses = [small.run(new_call("x = 3", session="third")).status for _ in range(3)]
        assert statuses[-1] is Status.OK
        assert small.run(new_call("x", session="first")).status is Status.SESSION_LOST
        assert small.run(new_call("x", session="second")).value == "2"
