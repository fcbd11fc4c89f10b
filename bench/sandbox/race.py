"""`run_race`: verified goodput of this sandbox and of its peers on the same seeded programs, interleaved."""

from __future__ import annotations

import queue
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from bench.sandbox import peers
from bench.sandbox.workload import Program, mix
from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox import Sandbox, ToolRunner

CALM = Limits(cpu_s=10, wall_s=120)
SHARP = Limits(cpu_s=2, wall_s=2)
"""Limits of the peer: 2 s."""
CALL_TIMEOUT_S = 600.0
_SMALL_LAZY = ("huge_pages", "eager_pages")
LOOP_PASSES = 3
"""Extra length of a pass with loops: the last loop ends 2 s after everything else, for any sandbox."""
MAX_CONTROL_SHIFT = 0.3
"""A round is void if the start of an interpreter differs by this factor from the first round."""


@dataclass(slots=True)
class Score:
    """Result of one pass over a workload."""

    goodput: float
    num_wrong: int = 0
    """Answers that differ from the expected one, without timeouts."""
    num_late: int = 0
    """Programs that should have ended and reached a limit."""
    num_lost: int = 0
    """Calls that the infrastructure lost, or that never ended."""
    latency_s: dict[str, list[float]] = field(default_factory=dict)

    def latency_ms(self) -> dict[str, dict[str, float]]:
        """p50, p95 and p99 by kind of program."""
        return {kind: percentiles_ms(seconds) for kind, seconds in sorted(self.latency_s.items())}


def percentiles_ms(seconds: list[float]) -> dict[str, float]:
    """p50, p95 and p99 in milliseconds.

    >>> percentiles_ms([0.001, 0.002, 0.003])
    {'p50': 2.0, 'p95': 3.0, 'p99': 3.0}
    """
    ordered = sorted(seconds)
    return {
        f"p{q}": round(1000 * ordered[min(len(ordered) - 1, len(ordered) * q // 100)], 3)
        for q in (50, 95, 99)
    }


def is_right(program: Program, result: ToolResult) -> bool:
    """Whether a program ended as expected."""
    if program.kind == "loop":
        return result.status is Status.TIMEOUT
    if program.kind == "error":
        return (
            result.status is Status.ERROR
            and result.error is not None
            and program.stdout in result.error.message
        )
    return result.status is Status.OK and result.stdout.strip() == program.stdout


def measure(runner: ToolRunner, programs: list[Program], *, in_flight: int, limits: Limits) -> Score:
    """Run all programs, at most `in_flight` at a time."""
    waiting = deque(enumerate(programs))
    running: dict[Any, tuple[Program, float]] = {}
    score = Score(0.0)
    done: queue.SimpleQueue[tuple[Any, float]] = queue.SimpleQueue()
    num_right = 0
    start = time.perf_counter()
    while waiting or running:
        while waiting and len(running) < in_flight:
            index, program = waiting.popleft()
            future = runner.submit(ToolCall(id=f"bench-{index}", code=program.code, limits=limits))
            running[future] = (program, time.perf_counter())
            future.add_done_callback(lambda ended: done.put((ended, time.perf_counter())))
        ended, at = done.get(timeout=CALL_TIMEOUT_S)
        program, submitted = running.pop(ended)
        num_right += _count(score, program, ended.result())
        score.latency_s.setdefault(program.kind, []).append(at - submitted)
    score.goodput = num_right / (time.perf_counter() - start)
    return score


def _count(score: Score, program: Program, result: ToolResult) -> bool:
    right = is_right(program, result)
    if result.status.is_infrastructure:
        score.num_lost += 1
    elif not right and result.status is Status.TIMEOUT:
        score.num_late += 1
    elif not right:
        score.num_wrong += 1
    return right


def run_race(
    sandbox: Sandbox, judges: dict[str, str], *, size: int, rounds: int, workers: int
) -> dict[str, Any]:
    """Race in rounds: sandbox, peers, sandbox. Each round runs without loops, then with 5% of them.

    First the peer runs a part of the programs in every way of driving it; the best way then runs in every round.

    Args:
        sandbox: the sandbox of this project.
        judges: name -> address of running code-judge instances; may be empty.
        size: programs of a pass.
        rounds: number of rounds.
        workers: cores, for the pool that spawns interpreters.
    """
    plain, loops = mix(size, loops=False), mix(LOOP_PASSES * size, loops=True)
    measure(sandbox, plain[:40], in_flight=8, limits=CALM)
    trials = [
        {"judge": name, "with_loops": with_loops, **row}
        for name, url in judges.items()
        for with_loops in (False, True)
        for row in peers.try_ways(url, mix(size // 4, loops=with_loops))
    ]
    record: dict[str, Any] = {"size": size, "trials": trials, "rounds": []}
    for _ in range(rounds):
        peers.wait_until_calm()
        entry: dict[str, Any] = {"control_s": peers.control_s(), "load_average": peers.load_average()}
        entry |= _our_round(sandbox, plain, loops)
        if judges:
            entry["peer"] = _judge_round(judges, trials, plain, loops)
            again = _our_round(sandbox, plain, loops)
            entry["again"] = {key: again[key] for key in ("goodput", "goodput_with_loops")}
            for key in ("wrong", "late", "lost"):
                entry[key] += again[key]
        entry["spawn_goodput"] = peers.spawn_goodput(plain[:40], workers)
        entry["fork_floor_ms"] = peers.fork_floor_ms()
        record["rounds"].append(entry)
    mark_void(record["rounds"])
    if judges:
        record["ratio"] = ratios(record["rounds"], "goodput")
        record["ratio_with_loops"] = ratios(record["rounds"], "goodput_with_loops")
    return record


def _our_round(sandbox: Sandbox, plain: list[Program], loops: list[Program]) -> dict[str, Any]:
    peers.wait_until_calm()
    score = measure(sandbox, plain, in_flight=64, limits=CALM)
    mixed = measure(sandbox, loops, in_flight=64, limits=SHARP)
    return {
        "goodput": score.goodput,
        "goodput_with_loops": mixed.goodput,
        "latency_ms": score.latency_ms(),
        "latency_ms_with_loops": mixed.latency_ms(),
        "wrong": score.num_wrong + mixed.num_wrong,
        "late": score.num_late + mixed.num_late,
        "lost": score.num_lost + mixed.num_lost,
    }


def _judge_round(
    judges: dict[str, str], trials: list[dict[str, Any]], plain: list[Program], loops: list[Program]
) -> dict[str, Any]:
    """Run the peer in the best way of the trials."""
    row: dict[str, Any] = {}
    for key, programs in (("", plain), ("_with_loops", loops)):
        tried = [trial for trial in trials if trial["with_loops"] == bool(key)]
        best = max(tried, key=lambda trial: trial["goodput"])
        peers.wait_until_calm()
        goodput, num_bad = peers.judge_goodput(judges[best["judge"]], programs, peers.WAYS[best["way"]])
        row |= {
            f"setting{key}": f"{best['judge']}, {best['way']}",
            f"goodput{key}": goodput,
            f"bad{key}": num_bad,
        }
    return row


def mark_void(rounds: list[dict[str, Any]]) -> None:
    """Mark rounds in which the speed of the machine differs from the first round.

    >>> rounds = [{"control_s": 0.010}, {"control_s": 0.012}, {"control_s": 0.02}]
    >>> mark_void(rounds)
    >>> [entry["void"] for entry in rounds]
    [False, False, True]
    """
    first = rounds[0]["control_s"]
    for entry in rounds:
        entry["void"] = abs(entry["control_s"] / first - 1) > MAX_CONTROL_SHIFT


def ratios(rounds: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Goodput of the sandbox (mean of before and after) over the peer's, per round: median, lowest, highest, number.

    >>> rounds = [{"void": False, "goodput": 30.0, "again": {"goodput": 50.0}, "peer": {"goodput": 2.0}}]
    >>> ratios(rounds, "goodput")["median"]
    20.0
    """
    counted = [entry for entry in rounds if not entry["void"]]
    values = [(entry[key] + entry["again"][key]) / 2 / entry["peer"][key] for entry in counted]
    return {
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "rounds": len(values),
    }


def waterfall(*, size: int, rounds: int, workers: int) -> list[dict[str, Any]]:
    """Goodput with each optimisation added.

    In order: a process per call, preloading, tiers, huge pages, pages that the fork copies at once.
    """
    programs = mix(size, loops=False)
    to_last_tier = [
        Program(kind=program.kind, code=program.code + "\n# sympy", stdout=program.stdout)
        for program in programs
    ]
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        spawned = peers.spawn_goodput(programs[:60], workers)
        figures.setdefault("spawn an interpreter per call", []).append(spawned)
        for name, batch, disabled in (
            ("+ fork from a preloaded interpreter", to_last_tier, _SMALL_LAZY),
            ("+ the cheapest tier", programs, _SMALL_LAZY),
            ("+ huge pages", programs, ("eager_pages",)),
            ("+ pages copied by the fork", programs, ()),
        ):
            with Sandbox(
                workers=workers, slots_per_worker=64 // workers, disabled_layers=disabled
            ) as sandbox:
                measure(sandbox, batch[:40], in_flight=64, limits=CALM)
                score = measure(sandbox, batch, in_flight=64, limits=CALM)
                figures.setdefault(name, []).append(score.goodput)
    return [
        {"step": name, "goodput": statistics.median(values), "low": min(values), "high": max(values)}
        for name, values in figures.items()
    ]
