"""`kills`: kill -9 of a fork server and of the supervisor under load, and the end of their calls."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from records.tool_call import Limits, ToolCall, ToolResult
from sandbox import Sandbox, ToolRunner

_CALL = "import time\ntime.sleep(0.25)\nprint('done')"
LIMITS = Limits(cpu_s=5, wall_s=120)
LOAD = 48
"""Calls that run or wait at the moment of the kill."""


def kills(*, rounds: int, workers: int) -> dict[str, Any]:
    """For each victim: the longest time from the kill to the end of a call that the victim held, and all statuses.

    `held` counts calls that ended as lost: those that the victim was running, and for a dead supervisor those it had
    accepted. `doubled` counts calls answered twice, `missing` calls without an answer.

    Args:
        rounds: kills of each kind.
        workers: cores of each sandbox.
    """
    table: dict[str, Any] = {}
    for victim, strike in (("fork server", _kill_fork_server), ("supervisor", _kill_supervisor)):
        rows = [strike(workers) for _ in range(rounds)]
        table[victim] = {
            "longest_s": max(row["longest_s"] for row in rows),
            "statuses": dict(sum((Counter(row["statuses"]) for row in rows), Counter())),
            "missing": sum(row["missing"] for row in rows),
            "doubled": sum(row["doubled"] for row in rows),
            "next_call": dict(Counter(row["next_call"] for row in rows)),
        }
    return table


def _kill_fork_server(workers: int) -> dict[str, Any]:
    with Sandbox(workers=workers, preload=("numpy",)) as sandbox:
        return _blow(sandbox, lambda: os.kill(sandbox.status()["zygotes"][0], signal.SIGKILL))


def _kill_supervisor(workers: int) -> dict[str, Any]:
    with Sandbox(workers=workers, preload=()) as sandbox:
        return _blow(sandbox, lambda: os.kill(int(sandbox.started["supervisor"]), signal.SIGKILL))


def _blow(runner: ToolRunner, strike: Callable[[], None]) -> dict[str, Any]:
    """Load the runner, kill the victim, wait for every call."""
    answers: Counter[str] = Counter()
    ended: dict[str, float] = {}

    def note(done: Future[ToolResult]) -> None:
        answers.update([done.result().id])
        ended[done.result().id] = time.perf_counter()

    futures = []
    for index in range(LOAD):
        future = runner.submit(ToolCall(id=f"kill-{index}", code=_CALL, limits=LIMITS))
        future.add_done_callback(note)
        futures.append(future)
    time.sleep(0.2)
    struck = time.perf_counter()
    strike()
    results = [future.result(120) for future in futures]
    lost = [ended[result.id] - struck for result in results if result.status.is_infrastructure]
    after = runner.submit(ToolCall(id="after", code="1 + 1", limits=LIMITS)).result(120)
    return {
        "longest_s": max(lost, default=0.0),
        "statuses": Counter(result.status.value for result in results),
        "missing": sum(f"kill-{index}" not in answers for index in range(LOAD)),
        "doubled": sum(times > 1 for times in answers.values()),
        "next_call": after.status.value,
    }
