"""Peers of the bench: a spawned interpreter per call, the bare cost of a fork, and a code-judge service.

code-judge is not part of this project; `python -m sandbox bench --help` describes how to start it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.sandbox.workload import Program

SPAWN_LIMIT_S = 20.0


def fork_floor_ms(repeats: int = 200) -> float:
    """Milliseconds to fork, exit and reap a bare process: no sandbox can be cheaper."""
    program = (
        "import os, time\n"
        f"start = time.perf_counter()\nfor _ in range({repeats}):\n    pid = os.fork()\n"
        "    if pid == 0:\n        os._exit(0)\n    os.waitpid(pid, 0)\n"
        f"print((time.perf_counter() - start) / {repeats} * 1000)"
    )
    return float(subprocess.check_output([sys.executable, "-S", "-c", program], text=True))


def run_spawned(program: Program) -> bool:
    """Run a program in a new interpreter; True if it ends as expected."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program.code],
            capture_output=True,
            text=True,
            timeout=SPAWN_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return program.kind == "loop"
    if program.kind == "error":
        return done.returncode != 0 and program.stdout in done.stderr
    return done.stdout.strip() == program.stdout


def spawn_goodput(programs: list[Program], workers: int) -> float:
    """Correct answers per second of a pool that spawns an interpreter per call."""
    start = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        num_right = sum(pool.map(run_spawned, programs))
    return num_right / (time.perf_counter() - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to post calls to a code-judge."""

    batch: int
    """Calls of one post; 1: `/run`, more: `/run/long-batch`."""
    in_flight: int
    pause_s: float = 0.0
    """Sleep of the released client after every post."""


WAYS = {
    "run, 64 in flight": Way(batch=1, in_flight=64),
    "run, 8 in flight": Way(batch=1, in_flight=8),
    "long-batch, 2 x 32": Way(batch=32, in_flight=64),
    "long-batch, 8 x 8": Way(batch=8, in_flight=64),
    "released client, 8 senders x 32": Way(batch=32, in_flight=256, pause_s=0.5),
}


def try_ways(url: str, programs: list[Program]) -> list[dict[str, Any]]:
    """Goodput of each way to drive a code-judge."""
    rows = []
    for name, way in WAYS.items():
        goodput, num_bad = judge_goodput(url, programs, way)
        rows.append({"way": name, "goodput": goodput, "bad": num_bad})
    return rows


def judge_goodput(url: str, programs: list[Program], way: Way) -> tuple[float, int]:
    """Correct answers per second of a code-judge at `url`, and the number of wrong or lost ones."""
    groups = [programs[k : k + way.batch] for k in range(0, len(programs), way.batch)]
    start = time.perf_counter()
    with ThreadPoolExecutor(max(1, way.in_flight // way.batch)) as pool:
        num_right = sum(pool.map(lambda group: _post(url, group, way.pause_s), groups))
    return num_right / (time.perf_counter() - start), len(programs) - num_right


def _post(url: str, programs: list[Program], pause_s: float) -> int:
    submissions = [{"type": "python", "solution": program.code, "input": ""} for program in programs]
    results: list[dict[str, object]] = []
    if len(programs) == 1:
        results = [_send(f"{url}/run", submissions[0])]
    else:
        answer = _send(f"{url}/run/long-batch", {"type": "batch", "submissions": submissions}).get("results")
        if isinstance(answer, list):
            results = [entry for entry in answer if isinstance(entry, dict)]
    time.sleep(pause_s)
    return sum(_is_right(program, result) for program, result in zip(programs, results, strict=False))


def _send(url: str, body: object) -> dict[str, object]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError):
        return {}


def _is_right(program: Program, result: dict[str, object]) -> bool:
    if program.kind == "loop":
        return result.get("reason") == "worker_timeout"
    if program.kind == "error":
        return program.stdout in str(result.get("stderr", ""))
    return str(result.get("stdout", "")).strip() == program.stdout


def control_s() -> float:
    """Seconds to start and end an interpreter, median of 5; a round with another value is not comparable."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def wait_until_calm(most_s: float = 20.0, window_s: float = 0.25, idle_frac: float = 0.9) -> None:
    """Wait for idle processors, at most `most_s`, so that leftovers of one contestant do not slow the next."""
    end_t = time.monotonic() + most_s
    idle, total = _processor_ticks()
    while time.monotonic() < end_t:
        time.sleep(window_s)
        before, (idle, total) = (idle, total), _processor_ticks()
        if idle - before[0] >= idle_frac * (total - before[1]):
            return


def _processor_ticks() -> tuple[int, int]:
    """Idle ticks and all ticks of all processors since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def load_average() -> float:
    """Number of runnable processes over the last minute."""
    return os.getloadavg()[0]
