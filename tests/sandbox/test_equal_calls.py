"""Equal calls: one run for many, each with its own id; limits, losses, draws and sessions are never shared."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from records.tool_call import Limits, Status, ToolCall, ToolError, ToolResult
from sandbox import CallRecord, EqualCalls
from sandbox.client import equal_calls
from sandbox.client.client import Caller, Sandbox


class ByHand(Caller):
    """A tool whose calls end on request of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[ToolCall, Future[ToolResult]]] = []
        self.closed: list[str] = []

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        future: Future[ToolResult] = Future()
        self.asked.append((call, future))
        return future

    def close_session(self, name: str) -> None:
        self.closed.append(name)

    def answer(self, number: int, status: Status = Status.OK, **fields: object) -> None:
        call, future = self.asked[number]
        future.set_result(ToolResult(id=call.id, status=status, cpu_s=0.5, queue_s=0.1, **fields))  # type: ignore[arg-type]


def call(name: str, code: str = "print(1 + 1)", **fields: object) -> ToolCall:
    return ToolCall(id=name, code=code, seed=len(name), **fields)  # type: ignore[arg-type]


def test_running_and_finished_calls_answer_equal_ones() -> None:
    tool = ByHand()
    shared = EqualCalls(tool)
    futures = [shared.submit(call(name)) for name in ("a", "bb")]
    tool.answer(0, stdout="2\n")
    futures.append(shared.submit(call("ccc")))
    assert len(tool.asked) == 1
    first, *others = [future.result(timeout=0) for future in futures]
    assert (first.id, first.cpu_s) == ("a", 0.5)
    assert others == [replace(first.without_clock(), id=name) for name in ("bb", "ccc")]


def test_an_error_of_the_code_is_shared() -> None:
    tool = ByHand()
    shared = EqualCalls(tool)
    futures = [shared.submit(call(name, "1 / 0")) for name in ("a", "b")]
    error = ToolError(type="ZeroDivisionError", message="division by zero", traceback="")
    tool.answer(0, Status.ERROR, error=error)
    assert [future.result(timeout=0).error for future in futures] == [error, error]


@pytest.mark.parametrize("status", [status for status in Status if status not in (Status.OK, Status.ERROR)])
def test_a_limit_or_a_loss_is_not_shared(status: Status) -> None:
    tool = ByHand()
    shared = EqualCalls(tool)
    first, second = shared.submit(call("a")), shared.submit(call("b"))
    tool.answer(0, status)
    third = shared.submit(call("c"))
    assert first.result(timeout=0).status is status
    assert [asked.id for asked, _ in tool.asked] == ["a", "b", "c"]
    tool.answer(1)
    tool.answer(2)
    assert [f.result(timeout=0).id for f in (second, third)] == ["b", "c"]


@pytest.mark.parametrize(
    "other",
    [
        call("b", "print(1 + 2)"),
        call("b", stdin="3"),
        call("b", limits=Limits(cpu_s=9.0)),
    ],
    ids=["code", "stdin", "limits"],
)
def test_other_calls_run(other: ToolCall) -> None:
    tool = ByHand()
    shared = EqualCalls(tool)
    shared.submit(call("a"))
    shared.submit(other)
    assert len(tool.asked) == 2


@pytest.mark.parametrize(
    "kind", [{"session": "s"}, {"code": "import random\nprint(random.random())"}], ids=["session", "draws"]
)
def test_sessions_and_draws_run_every_time(kind: dict[str, str]) -> None:
    tool = ByHand()
    shared = EqualCalls(tool)
    for name in ("a", "b"):
        shared.submit(call(name, **kind))
    shared.close_session("s")
    assert (len(tool.asked), tool.closed) == (2, ["s"])


def test_the_oldest_program_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_calls, "_MOST_KEPT", 2)
    tool = ByHand()
    shared = EqualCalls(tool)
    for number, n in enumerate((1, 2, 3, 3, 2, 1)):
        shared.submit(call(str(number), f"print({n})"))
    assert [asked.code for asked, _ in tool.asked] == ["print(1)", "print(2)", "print(3)", "print(1)"]


def test_with_a_real_sandbox_results_are_those_of_separate_runs() -> None:
    programs = [
        "print(6 * 7)",
        "1 / 0",
        "import random\nprint(random.random())",
        "print((",
        "while True: pass",
    ] * 3
    calls = [
        ToolCall(id=str(n), code=code, seed=n, limits=Limits(cpu_s=0.2, wall_s=20.0))
        for n, code in enumerate(programs)
    ]
    with Sandbox(workers=2, preload=()) as sandbox:
        apart = [future.result() for future in [sandbox.submit(c) for c in calls]]
        shared = EqualCalls(sandbox)
        together = [future.result() for future in [shared.submit(c) for c in calls]]
    assert [r.without_clock() for r in together] == [r.without_clock() for r in apart]


def test_a_job_of_the_run_receives_what_another_recorded(tmp_path: Path) -> None:
    def job(around: str = "python") -> tuple[ByHand, EqualCalls]:
        tool = ByHand()
        return tool, EqualCalls(tool, CallRecord(tmp_path / "calls.jsonl", is_durable=False), around)

    (first_tool, first), (second_tool, second) = job(), job()
    error = ToolError(type="ZeroDivisionError", message="division by zero", traceback="line 1")
    answers = [first.submit(call("a", stdin="4")), first.submit(call("b", "1 / 0"))]
    first_tool.answer(0, stdout="2\n")
    first_tool.answer(1, Status.ERROR, error=error)
    repeated = [second.submit(call("later", stdin="4")), second.submit(call("latest", "1 / 0"))]
    assert second_tool.asked == []
    assert [future.result(timeout=0) for future in repeated] == [
        replace(future.result().without_clock(), id=name)
        for future, name in zip(answers, ("later", "latest"), strict=True)
    ]
    for other in (
        call("x", stdin="5"),
        call("x", limits=Limits(cpu_s=9.0)),
        call("x", "import time\ntime.time()"),
    ):
        second.submit(other)
    assert len(second_tool.asked) == 3
    other_tool, other_job = job("another python")
    other_job.submit(call("a", stdin="4"))
    assert len(other_tool.asked) == 1


def test_only_outcomes_of_the_code_are_recorded_and_a_full_disk_stops_no_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "calls.jsonl"
    tool = ByHand()
    shared = EqualCalls(tool, CallRecord(file, is_durable=False), "python")
    for number, status in enumerate((Status.TIMEOUT, Status.MEMORY, Status.CRASH, Status.LOST)):
        shared.submit(call(str(status)))
        tool.answer(number, status)
    assert not file.exists()
    full = EqualCalls(tool, CallRecord(Path("/dev/full"), is_durable=False), "python")
    answer = full.submit(call("a", "print(9)"))
    tool.answer(4, stdout="9\n")
    assert answer.result(timeout=0).stdout == "9\n"
    assert "no longer recorded" in capsys.readouterr().err
