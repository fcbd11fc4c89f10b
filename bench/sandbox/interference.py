"""`interference`: the cost of a full sandbox to a training process pinned to its own core."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
from typing import Any

from bench.sandbox.race import CALM, measure
from bench.sandbox.workload import mix
from sandbox import Sandbox

_PROGRAM = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
import numpy as np
a = np.random.default_rng(0).normal(size=(384, 384)).astype(np.float32)
a @ a
for line in sys.stdin:
    until, count, start, cpu = time.perf_counter() + float(line), 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < until:
        for _ in range(4):
            a @ a
        count += 4
    print(count / (time.perf_counter() - start), count / (time.process_time() - cpu), flush=True)
"""


class Product:
    """A process that multiplies one matrix by itself, on one core, one thread."""

    def __init__(self, core: int) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **threads},
        )

    def per_s(self, seconds: float) -> tuple[float, float]:
        """Products per second, and per second of CPU, over the next `seconds`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        wall, cpu = map(float, self._process.stdout.readline().split())
        return wall, cpu

    def close(self) -> None:
        self._process.communicate()


def interference(*, workers: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Speed of the pinned product beside a full sandbox over its speed alone, in alternation.

    The sandbox runs in three ways: on the other cores at low priority, anywhere at low priority, and anywhere at equal
    priority. In the first one the submitting process also avoids the core. `ratio` uses the clock and is valid on a
    machine without other load; `cpu_ratio` is per second of CPU and shows the effect of caches and memory alone.

    Args:
        workers: cores that the sandbox fills.
        rounds: repetitions of each.
        seconds: length of one measurement.
    """
    cores = sorted(os.sched_getaffinity(0))
    others = cores[1:] or cores
    product = Product(cores[0])
    product.per_s(0.5)
    ways: dict[str, dict[str, Any]] = {
        "affinity and niceness": {"affinity": others},
        "niceness": {},
        "neither": {"niceness": 0, "decayed_niceness": 0},
    }
    table = {}
    try:
        for name, settings in ways.items():
            if "affinity" in settings:
                os.sched_setaffinity(0, others)
            with Sandbox(workers=workers, slots_per_worker=max(1, 32 // workers), **settings) as sandbox:
                table[name] = _turns(sandbox, product, rounds, seconds)
            os.sched_setaffinity(0, cores)
    finally:
        os.sched_setaffinity(0, cores)
        product.close()
    return {"cores": len(cores), "ways": table}


def _turns(sandbox: Sandbox, product: Product, rounds: int, seconds: float) -> dict[str, Any]:
    programs = mix(400, loops=False)
    ratios: list[float] = []
    cpu_ratios: list[float] = []
    goodputs: list[float] = []
    for _ in range(rounds):
        before = product.per_s(seconds)
        load = Load(sandbox, programs)
        beside = product.per_s(seconds)
        goodputs.append(load.stop())
        after = product.per_s(seconds)
        ratios.append(beside[0] / ((before[0] + after[0]) / 2))
        cpu_ratios.append(beside[1] / ((before[1] + after[1]) / 2))
    return {
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "cpu_ratio": statistics.median(cpu_ratios),
        "goodput": statistics.median(goodputs),
    }


class Load:
    """Keeps a sandbox full from a thread until `stop`."""

    def __init__(self, sandbox: Sandbox, programs: list[Any]) -> None:
        self._goodputs: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(sandbox, programs), daemon=True)
        self._thread.start()

    def _run(self, sandbox: Sandbox, programs: list[Any]) -> None:
        while not self._is_over.is_set():
            self._goodputs.append(measure(sandbox, programs[:100], in_flight=32, limits=CALM).goodput)

    def stop(self) -> float:
        """Wait for running calls; return the mean goodput."""
        self._is_over.set()
        self._thread.join()
        return statistics.fmean(self._goodputs)
