"""`burst` and `refused_burst`: many calls at once, without and with a queue limit."""

from __future__ import annotations

import resource
import statistics
import time
from collections import Counter
from typing import Any

from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox import Sandbox

SLEEP_S = 0.02
LIMITS = Limits(cpu_s=5, wall_s=600)


def burst(*, size: int, workers: int, slots: int) -> dict[str, Any]:
    """Submit `size` calls of 20 ms at once to a default client; return their results and the dispatcher's cost.

    Args:
        size: calls.
        workers: cores of the sandbox.
        slots: calls running at once.
    """
    with Sandbox(workers=workers, slots_per_worker=max(1, slots // workers)) as sandbox:
        before, rss_before = sandbox.status(), own_rss_bytes()
        start, cpu_start = time.perf_counter(), time.process_time()
        answers: Counter[str] = Counter()
        futures = []
        for call in _calls(size):
            future = sandbox.submit(call)
            future.add_done_callback(lambda done: answers.update([done.result().id]))
            futures.append(future)
        submitted_s = time.perf_counter() - start
        results = [future.result() for future in futures]
        seconds = time.perf_counter() - start
        after = sandbox.status()
        client_ms = 1000 * (time.process_time() - cpu_start) / size
        rss_after, supervisor_rss = own_rss_bytes(), rss_bytes(int(after["supervisor"]))
    latency_s = [result.queue_s + result.wall_s for result in results]
    return {
        "calls": size,
        "slots": slots,
        **count(results),
        "answered_twice": sum(times > 1 for times in answers.values()),
        "seconds": seconds,
        "submitted_s": submitted_s,
        "calls_per_s": size / seconds,
        "mean_latency_s": statistics.fmean(latency_s),
        "ideal_mean_latency_s": seconds / 2 + SLEEP_S,
        "dispatcher_ms_per_call": 1000 * (after["cpu_s"] - before["cpu_s"]) / size,
        "client_ms_per_call": client_ms,
        "client_rss_bytes_per_call": (rss_after - rss_before) / size,
        "dispatcher_rss_bytes": supervisor_rss,
        "descriptors_before": before["open_descriptors"],
        "descriptors_after": after["open_descriptors"],
    }


def refused_burst(*, size: int, workers: int, slots: int, queue_limit: int) -> dict[str, Any]:
    """As `burst`, with a queue limit: first with a client that passes refusals on, then the refused calls by default.

    Args:
        size: calls.
        workers: cores of the sandbox.
        slots: calls running at once.
        queue_limit: calls waiting in the supervisor.
    """
    with Sandbox(
        workers=workers,
        slots_per_worker=max(1, slots // workers),
        queue_limit=queue_limit,
        waits_when_full=False,
    ) as sandbox:
        start = time.perf_counter()
        calls = list(_calls(size))
        first = sandbox.run_many(calls)
        refused = [
            call for call, result in zip(calls, first, strict=True) if result.status is Status.REJECTED
        ]
        sandbox.waits_when_full = True
        second = sandbox.run_many(refused)
        seconds = time.perf_counter() - start
        num_refusals = sandbox.num_refusals
    counts = count(first)
    return {
        "calls": size,
        "queue_limit": queue_limit,
        "first": counts,
        "ok_plus_rejected": counts["ok"] + counts["rejected"],
        "retried": count(second),
        "refusals_while_retrying": num_refusals,
        "ok_after_retries": counts["ok"] + count(second)["ok"],
        "seconds": seconds,
    }


def _calls(size: int) -> list[ToolCall]:
    return [
        ToolCall(
            id=f"burst-{k}", code=f"import time\ntime.sleep({SLEEP_S})\nprint('burst-{k}')", limits=LIMITS
        )
        for k in range(size)
    ]


def count(results: list[ToolResult]) -> dict[str, int]:
    """Count the calls of a burst by status; `ok` requires the right output."""
    num_ok = sum(result.status is Status.OK and result.stdout == f"{result.id}\n" for result in results)
    return {
        "ok": num_ok,
        "rejected": sum(result.status is Status.REJECTED for result in results),
        "lost": sum(result.status is Status.LOST for result in results),
        "other": sum(result.status not in (Status.REJECTED, Status.LOST) for result in results) - num_ok,
    }


def own_rss_bytes() -> int:
    """Memory of this process, in bytes."""
    return rss_bytes(0)


def rss_bytes(pid: int) -> int:
    """Resident memory of a process (0: this one), in bytes."""
    with open(f"/proc/{pid or 'self'}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
