"""`offered_load`, `paper_load`: latency against offered load, and at the rate of the paper."""

from __future__ import annotations

import random
import statistics
import time
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

from bench.sandbox.race import CALM, is_right, measure, percentiles_ms
from bench.sandbox.workload import Program, mix
from records.tool_call import ToolCall, ToolResult
from sandbox import Sandbox, ToolRunner

PAPER_CALLS = 45_000
"""Tool calls of one training step (paper, section 3.1)."""
PAPER_MEAN_S = 0.3
PAPER_STEP_S = 7 * 86_400 / 510
"""Mean seconds of a training step: a week over 510 steps (paper, section 1)."""
BATCHES = 10
"""Groups of consecutive calls whose means give the spread of the mean latency."""
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9)
PHASES_S = (60.0, 120.0, 300.0, 600.0)
"""Lengths of a rollout phase over which the calls of a step may be spread; the paper gives none."""


def offered_load(*, size: int, workers: int, seed: int = 7) -> dict[str, Any]:
    """Mean and p99 latency at shares of the capacity, and the cores for 45,000 calls at 0.3 s mean.

    Calls arrive as a Poisson stream; latency counts from the planned arrival. Capacity is the goodput of the same
    sandbox with 64 calls in flight.

    Args:
        size: calls at each load.
        workers: cores of the sandbox.
        seed: seed of the arrivals.
    """
    programs = mix(size, loops=False)
    rows: list[dict[str, Any]] = []
    with Sandbox(workers=workers, slots_per_worker=max(1, 64 // workers)) as sandbox:
        measure(sandbox, programs[:100], in_flight=16, limits=CALM)
        capacity = measure(sandbox, programs, in_flight=64, limits=CALM).goodput
        for load in LOADS:
            latency_s, num_bad = _stream(sandbox, programs, load * capacity, random.Random(seed))
            rows.append(
                {
                    "load": load,
                    "calls_per_s": load * capacity,
                    "mean_ms": 1000 * statistics.fmean(latency_s),
                    **percentiles_ms(latency_s),
                    "bad": num_bad,
                }
            )
    return {
        "capacity_calls_per_s": capacity,
        "workers": workers,
        "rows": rows,
        "cores_needed": cores_needed(capacity / workers, rows),
    }


def paper_load(*, size: int, workers: int, seed: int = 7) -> dict[str, Any]:
    """Latency of an open-loop stream at the paper's rate: 45,000 calls over the 1,186 s of a step.

    Args:
        size: calls; 45,000 replay a whole step.
        workers: cores of the sandbox.
        seed: seed of the arrivals.
    """
    calls_per_s = PAPER_CALLS / PAPER_STEP_S
    programs = mix(size, loops=False)
    with Sandbox(workers=workers, slots_per_worker=max(1, 64 // workers)) as sandbox:
        measure(sandbox, programs[:100], in_flight=16, limits=CALM)
        latency_s, num_bad = _stream(sandbox, programs, calls_per_s, random.Random(seed))
    bounds = [len(latency_s) * k // BATCHES for k in range(BATCHES + 1)]
    return {
        "num_calls": len(programs),
        "calls_per_s": calls_per_s,
        "mean_ms": 1000 * statistics.fmean(latency_s),
        **percentiles_ms(latency_s),
        "batch_mean_s": [statistics.fmean(latency_s[a:b]) for a, b in pairwise(bounds)],
        "bad": num_bad,
    }


def _stream(
    runner: ToolRunner, programs: list[Program], calls_per_s: float, stream: random.Random
) -> tuple[list[float], int]:
    latency_s: list[float] = []
    futures: list[Future[ToolResult]] = []
    start = due = time.perf_counter()
    for index, program in enumerate(programs):
        due += stream.expovariate(calls_per_s)
        time.sleep(max(0.0, due - time.perf_counter()))
        future = runner.submit(ToolCall(id=f"offered-{index}", code=program.code, limits=CALM))
        future.add_done_callback(lambda _, due=due: latency_s.append(time.perf_counter() - due))
        futures.append(future)
    results = [future.result() for future in futures]
    assert time.perf_counter() > start
    return latency_s, sum(not is_right(p, result) for p, result in zip(programs, results, strict=True))


def cores_needed(calls_per_core_s: float, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Cores for 45,000 calls at a mean latency of 0.3 s: all at once, and spread over a rollout phase.

    At once, answers arrive at a constant rate, so the mean is half of the total, and all must be done in twice 0.3 s.
    Spread, the cores must carry the rate at the highest measured load whose mean stays below 0.3 s.

    >>> cores_needed(100.0, [{"load": 0.8, "mean_ms": 50.0}, {"load": 0.9, "mean_ms": 400.0}])["burst"]
    750.0
    >>> cores_needed(100.0, [{"load": 0.8, "mean_ms": 50.0}, {"load": 0.9, "mean_ms": 400.0}])["over 300 s"]
    1.875
    """
    cores = {"burst": PAPER_CALLS / (2 * PAPER_MEAN_S) / calls_per_core_s}
    fitting = [row["load"] for row in rows if row["mean_ms"] <= 1000 * PAPER_MEAN_S]
    for phase_s in PHASES_S if fitting else ():
        cores[f"over {phase_s:g} s"] = PAPER_CALLS / phase_s / (max(fitting) * calls_per_core_s)
    return cores
