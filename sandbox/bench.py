"""Throughput, latency and losses on the standard workload, interleaved with the peers, every answer verified."""

from __future__ import annotations

import os
import platform
import queue
import socket
import statistics
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sandbox import peers
from sandbox.client import Sandbox
from sandbox.records import Limits, Status, ToolCall, ToolResult
from sandbox.workload import Program, mix

IN_FLIGHT = (1, 8, 64)


@dataclass(slots=True)
class Score:
    """What one pass over a workload gave."""

    goodput: float
    num_wrong: int
    num_lost: int
    latency_s: dict[str, list[float]] = field(default_factory=dict)

    def latency_ms(self) -> dict[str, dict[str, float]]:
        """p50, p95 and p99 by kind of program."""
        table = {}
        for kind, seconds in sorted(self.latency_s.items()):
            ordered = sorted(seconds)
            table[kind] = {
                f"p{q}": round(1000 * ordered[min(len(ordered) - 1, len(ordered) * q // 100)], 3)
                for q in (50, 95, 99)
            }
        return table


def is_right(program: Program, result: ToolResult) -> bool:
    """Whether a program ended as it must."""
    if program.kind == "loop":
        return result.status is Status.TIMEOUT
    if program.kind == "error":
        return (
            result.status is Status.ERROR
            and result.error is not None
            and program.stdout in result.error.message
        )
    return result.status is Status.OK and result.stdout.strip() == program.stdout


def measure(sandbox: Sandbox, programs: list[Program], *, in_flight: int, limits: Limits) -> Score:
    """Run all programs, at most `in_flight` at a time."""
    waiting = deque(enumerate(programs))
    running: dict[Any, tuple[Program, float]] = {}
    score = Score(0.0, 0, 0)
    done: queue.SimpleQueue[tuple[Any, float]] = queue.SimpleQueue()
    num_right = 0
    start = time.perf_counter()
    while waiting or running:
        while waiting and len(running) < in_flight:
            index, program = waiting.popleft()
            future = sandbox.submit(ToolCall(id=f"bench-{index}", code=program.code, limits=limits))
            running[future] = (program, time.perf_counter())
            future.add_done_callback(lambda ended: done.put((ended, time.perf_counter())))
        ended, at = done.get(timeout=600)
        program, submitted = running.pop(ended)
        result = ended.result()
        right = is_right(program, result)
        num_right += right
        score.num_lost += result.status.is_ours
        score.num_wrong += not right and not result.status.is_ours
        score.latency_s.setdefault(program.kind, []).append(at - submitted)
    score.goodput = num_right / (time.perf_counter() - start)
    return score


def session_cells(sandbox: Sandbox, repeats: int) -> dict[str, float]:
    """Milliseconds of one more cell of a warm session, beside a socket round trip plus exec of the same code."""
    limits = Limits(cpu_s=5, wall_s=60)
    sandbox.run(ToolCall(id="first", code="x = 0", session="bench", limits=limits))
    ours = []
    for index in range(repeats):
        start = time.perf_counter()
        sandbox.run(ToolCall(id=f"cell-{index}", code="x += 1\nx", session="bench", limits=limits))
        ours.append(1000 * (time.perf_counter() - start))
    sandbox.close_session("bench")
    bare = _bare_exec_ms(repeats)
    p50 = statistics.median(ours)
    return {"p50_ms": p50, "p95_ms": sorted(ours)[repeats * 95 // 100], "bare_ms": bare, "ratio": p50 / bare}


def _bare_exec_ms(repeats: int) -> float:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        scope: dict[str, int] = {"x": 0}
        while code := theirs.recv(4096):
            exec(code, scope)
            theirs.send(str(scope["x"]).encode())
        os._exit(0)
    theirs.close()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        ours.send(b"x += 1")
        ours.recv(100)
        times.append(1000 * (time.perf_counter() - start))
    ours.close()
    os.waitpid(pid, 0)
    return statistics.median(times)


def deadline_excess_s(sandbox: Sandbox, repeats: int) -> float:
    """Longest time that code which swallows its time limit lived beyond it, in seconds."""
    code = "while True:\n    try:\n        while True: sum(range(99))\n    except BaseException: pass"
    limits = Limits(wall_s=0.5, cpu_s=0.5)
    results = [sandbox.run(ToolCall(id=f"late-{k}", code=code, limits=limits)) for k in range(repeats)]
    return max(result.wall_s - 0.5 for result in results)


def burst(sandbox: Sandbox, size: int) -> dict[str, float]:
    """`size` calls at once that sleep 20 ms: how many ended well, and what the dispatcher paid per call."""
    before = sandbox.status()
    limits = Limits(cpu_s=5, wall_s=600)
    start = time.perf_counter()
    results = sandbox.run_many(
        ToolCall(id=f"burst-{k}", code=f"import time\ntime.sleep(0.02)\nprint({k})", limits=limits)
        for k in range(size)
    )
    seconds = time.perf_counter() - start
    num_ok = sum(result.stdout == f"{k}\n" for k, result in enumerate(results))
    after = sandbox.status()
    return {
        "calls": size,
        "ok": num_ok,
        "calls_per_s": size / seconds,
        "mean_latency_s": statistics.fmean(result.queue_s + result.wall_s for result in results),
        "dispatcher_ms_per_call": 1000 * (after["cpu_s"] - before["cpu_s"]) / size,
        "descriptors_before": before["open_descriptors"],
        "descriptors_after": after["open_descriptors"],
    }


def waterfall(programs: list[Program], workers: int, in_flight: int) -> list[dict[str, Any]]:
    """Goodput as each idea is added: a process per call, preloading, tiers, huge pages."""
    limits = Limits(cpu_s=10, wall_s=120)
    steps = [
        {"step": "spawn an interpreter per call", "goodput": peers.spawn_goodput(programs[:40], workers)}
    ]
    to_last_tier = [
        Program(kind=program.kind, code=program.code + "\n# sympy", stdout=program.stdout)
        for program in programs
    ]
    for name, batch, disabled in (
        ("fork from a preloaded interpreter", to_last_tier, ("huge_pages",)),
        ("route to the cheapest tier", programs, ("huge_pages",)),
        ("huge pages", programs, ()),
    ):
        with Sandbox(workers=workers, slots_per_worker=8, niceness=0, disabled_layers=disabled) as sandbox:
            measure(sandbox, batch[:20], in_flight=in_flight, limits=limits)
            steps.append(
                {"step": name, "goodput": measure(sandbox, batch, in_flight=in_flight, limits=limits).goodput}
            )
    return steps


def run_bench(*, quick: bool, workers: int, judge_url: str | None) -> dict[str, Any]:
    """The whole bench as one JSON object. A wrong or lost answer makes `valid` false."""
    size, rounds = (80, 1) if quick else (500, 3)
    plain, loops = mix(size, loops=False), mix(size, loops=True)
    calm, sharp = Limits(cpu_s=10, wall_s=120), Limits(cpu_s=2, wall_s=2)
    record: dict[str, Any] = {"rounds": [], "calls_per_s": []}
    with Sandbox(workers=workers, slots_per_worker=max(4, 64 // workers)) as sandbox:
        measure(sandbox, plain[:20], in_flight=8, limits=calm)
        faults = 0
        for _ in range(rounds):
            before = peers.control_s()
            score = measure(sandbox, plain, in_flight=64, limits=calm)
            mixed = measure(sandbox, loops, in_flight=64, limits=sharp)
            faults += score.num_wrong + score.num_lost + mixed.num_lost
            entry = {
                "control_s": before,
                "load_average": peers.load_average(),
                "goodput": score.goodput,
                "goodput_with_loops": mixed.goodput,
                "latency_ms": score.latency_ms(),
                "wrong": score.num_wrong,
                "lost": score.num_lost + mixed.num_lost,
                "wrong_with_loops": mixed.num_wrong,
            }
            if judge_url:
                entry["peer"] = _judge_round(judge_url, plain, loops)
            record["rounds"].append(entry)
        levels = (1, 64) if quick else IN_FLIGHT
        for level in levels:
            subset = plain[: 40 if quick else 200]
            row: dict[str, Any] = {"in_flight": level}
            row["ours"] = measure(sandbox, subset, in_flight=level, limits=calm).goodput
            if judge_url:
                row["peer"] = peers.judge_goodput(judge_url, subset, in_flight=level, batch=1)[0]
            record["calls_per_s"].append(row)
        record["session"] = session_cells(sandbox, 100 if quick else 1000)
        record["deadline_excess_s"] = deadline_excess_s(sandbox, 2 if quick else 10)
        record["burst"] = burst(sandbox, 200 if quick else 45_000)
        record["isolation"] = {"level": sandbox.started["level"], "layers": sandbox.started["states"]}
    record["fork_floor_ms"] = peers.fork_floor_ms()
    record["spawn_goodput"] = peers.spawn_goodput(plain[:20], workers)
    if not quick:
        record["waterfall"] = waterfall(plain, workers, 64)
    if judge_url:
        record["ratio"] = _ratios(record["rounds"], "goodput")
        record["ratio_with_loops"] = _ratios(record["rounds"], "goodput_with_loops")
    record["valid"] = faults == 0
    record["quick"] = quick
    record["versions"] = {
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "cores": os.cpu_count(),
    }
    return record


def _judge_round(url: str, plain: list[Program], loops: list[Program]) -> dict[str, Any]:
    """The peer at its best of several ways to post."""
    ways = {"run": 1, "long-batch 32": 32, "long-batch 8": 8}
    table = {}
    for name, batch in ways.items():
        goodput, num_bad = peers.judge_goodput(url, plain, in_flight=64, batch=batch)
        with_loops, num_bad_loops = peers.judge_goodput(url, loops, in_flight=64, batch=batch)
        table[name] = {
            "goodput": goodput,
            "bad": num_bad,
            "goodput_with_loops": with_loops,
            "bad_with_loops": num_bad_loops,
        }
    return table


def _ratios(rounds: list[dict[str, Any]], key: str) -> dict[str, float]:
    ratios = [entry[key] / max(way[key] for way in entry["peer"].values()) for entry in rounds]
    return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
