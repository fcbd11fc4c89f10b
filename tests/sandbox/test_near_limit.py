"""Calls near their limit: recorded before use, and equal for a whole run, also after a kill."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from records.errors import UserError
from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox.client.call_record import CallRecord
from sandbox.client.client import Caller, Sandbox
from sandbox.client.near_limit import NearLimitCalls, digest_of, is_near_limit, surroundings
from tests.sandbox.conftest import message_of

LIMITS = Limits(cpu_s=1.0, wall_s=10.0)


class Clockwork(Caller):
    """A tool with the CPU seconds that the test sets next."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_s: list[float] = []
        self.num_runs = 0

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        cpu_s = self.takes_s.pop(0)
        self.num_runs += 1
        status = Status.OK if cpu_s < call.limits.cpu_s else Status.TIMEOUT
        future: Future[ToolResult] = Future()
        stdout = "2\n" if status is Status.OK else ""
        future.set_result(ToolResult(id=call.id, status=status, stdout=stdout, cpu_s=cpu_s, queue_s=0.5))
        return future


def call(name: str, code: str = "print(1 + 1)", **fields: object) -> ToolCall:
    return ToolCall(**{"id": name, "code": code, "limits": LIMITS, "seed": len(name), **fields})  # type: ignore[arg-type]


def opened(file: Path, *takes_s: float) -> tuple[NearLimitCalls, Clockwork]:
    tool = Clockwork()
    tool.takes_s += takes_s
    return NearLimitCalls(tool, file, "here"), tool


def statuses(calls: NearLimitCalls, names: str) -> list[Status]:
    return [calls.submit(call(name)).result(timeout=0).status for name in names]


def test_the_first_outcome_counts_for_the_run_and_its_resumption(tmp_path: Path) -> None:
    file = tmp_path / "work" / "calls.jsonl"
    first, tool = opened(file, 0.98)
    assert statuses(first, "ab") == [Status.OK, Status.OK]
    assert tool.num_runs == 1
    resumed, tool = opened(file, 1.2)
    result = resumed.submit(call("c")).result(timeout=0)
    assert (result.id, result.status, result.stdout, result.cpu_s, tool.num_runs) == (
        "c",
        Status.OK,
        "2\n",
        0.98,
        0,
    )


def test_a_timeout_repeats_as_well(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    assert statuses(opened(file, 1.2, 1.2)[0], "a") == [Status.TIMEOUT]
    assert statuses(opened(file, 0.9)[0], "b") == [Status.TIMEOUT]


def test_a_call_that_a_second_run_brings_below_its_limit_is_ok(tmp_path: Path) -> None:
    calls, tool = opened(tmp_path / "calls.jsonl", 1.2, 0.9)
    assert (statuses(calls, "ab"), tool.num_runs) == ([Status.OK, Status.OK], 2)


def test_a_call_far_from_its_limits_leaves_no_record(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    calls, tool = opened(file, 0.1, 0.2)
    statuses(calls, "ab")
    assert (tool.num_runs, file.exists()) == (2, False)


@pytest.mark.parametrize(
    "other",
    [
        call("b", "print(1 + 2)"),
        call("b", stdin="3"),
        call("b", limits=replace(LIMITS, cpu_s=0.9)),
        call("b", limits=replace(LIMITS, memory_bytes=2**28)),
    ],
    ids=["code", "stdin", "cpu", "memory"],
)
def test_another_call_is_another_record(other: ToolCall) -> None:
    assert digest_of(other, "here") != digest_of(call("b"), "here")
    assert digest_of(call("b"), "there") != digest_of(call("b"), "here")


def test_the_seed_matters_if_the_program_may_draw() -> None:
    draws = "import random\nprint(random.random())"
    assert digest_of(call("a", draws), "") != digest_of(call("bb", draws), "")
    assert digest_of(call("a"), "") == digest_of(call("bb"), "")


@pytest.mark.parametrize("status", [status for status in Status if status.is_infrastructure])
def test_infrastructure_outcomes_are_never_recorded(status: Status) -> None:
    assert not is_near_limit(ToolResult(id="a", status=status, cpu_s=5.0), LIMITS)


def test_a_cell_of_a_session_is_passed_on(tmp_path: Path) -> None:
    calls, tool = opened(tmp_path / "calls.jsonl", 0.9, 0.9)
    for name in "ab":
        calls.submit(call(name, session="s"))
    assert tool.num_runs == 2


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    statuses(opened(file, 0.9)[0], "a")
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])
    calls, tool = opened(file, 1.2, 1.2)
    assert calls.submit(call("b", "print(3)")).result(timeout=0).status is Status.TIMEOUT
    assert [json.loads(line)["result"]["status"] for line in file.read_text().split("\n")[:-1]] == [
        "ok",
        "timeout",
    ]
    assert (statuses(calls, "c"), tool.num_runs) == ([Status.OK], 2)


def test_a_complete_line_that_is_not_a_record_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text('{"digest": 1}\n')
    with pytest.raises(UserError, match=r"no recorded call .* remove that line"):
        CallRecord(file)


def test_two_processes_of_a_run_share_the_record(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    one, _ = opened(file, 0.9, 0.9)
    two, _ = opened(file, 1.2, 1.2)
    assert statuses(one, "a") == [Status.OK]
    assert statuses(two, "b") == [Status.OK]  # running when the other was recorded


def _record_until_killed(file: str) -> None:
    record = CallRecord(Path(file))
    for n in range(10**6):
        record.keep(str(n), ToolResult(id="a", status=Status.OK, stdout="x" * 5000))


def test_kill_9_loses_no_record_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    child = multiprocessing.get_context("spawn").Process(target=_record_until_killed, args=(str(file),))
    child.start()
    while not file.exists() or file.stat().st_size < 50_000:
        time.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    record = CallRecord(file)
    assert record.find("0") is not None
    record.keep("new", ToolResult(id="a", status=Status.TIMEOUT))
    assert all(json.loads(line) for line in file.read_text().split("\n")[:-1])


def test_a_failed_record_gives_a_lost_call(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    calls, _ = opened(tmp_path / "taken" / "calls.jsonl", 0.9)
    result = calls.submit(call("a")).result(timeout=0)
    assert result.status is Status.LOST
    assert "could not be recorded" in message_of(result)


def test_with_a_real_sandbox_a_recorded_call_runs_once(tmp_path: Path) -> None:
    limits = Limits(cpu_s=0.4, wall_s=20.0)
    half_the_limit = "import time\nwhile time.process_time() < 0.2: pass\nprint(1)"  # on any processor
    outcomes = []
    for turn in range(2):
        with Sandbox(workers=1, preload=()) as sandbox:
            calls = NearLimitCalls(sandbox, tmp_path / "calls.jsonl", surroundings(()))
            codes = ("while True: pass", half_the_limit, "print(2)")
            results = calls.run_many(
                ToolCall(id=f"{turn}/{n}", code=code, limits=limits) for n, code in enumerate(codes)
            )
            outcomes.append([(r.status, r.stdout, r.cpu_s) for r in results])
    assert outcomes[0][:2] == outcomes[1][:2]  # equal CPU seconds: they did not run again
