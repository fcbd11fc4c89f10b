"""`starvation`: the wait of tool calls beside slow proofs, in one shared pool and in two."""

from __future__ import annotations

import random
import time
from concurrent.futures import Future
from typing import Any

from bench.sandbox.race import percentiles_ms
from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox import Sandbox

SLOW_SHARE = 0.05
SLOW_S = 1.0
BATCH = 200
EVERY_S = 14.0
LIMITS = Limits(cpu_s=5, wall_s=300)
_QUICK_PROOF = "sum(k * k for k in range(2000))"
_SLOW_PROOF = f"import time\nwhile time.process_time() < {SLOW_S}: sum(range(999))"
_TOOL = "total = sum(range(1000))\nprint(total)"


def starvation(
    *, batches: int, calls_per_s: float, rounds: int, workers: int, seed: int = 7
) -> dict[str, Any]:
    """Wait of tool calls (from submit to answer) during the verification of answers, 5% of them slow proofs.

    Tool calls arrive as a Poisson stream; answers arrive two hundred at once every 14 s, as when rollouts end together.

    Args:
        batches: batches of answers in a round.
        calls_per_s: tool calls per second, equal in both arrangements.
        rounds: repetitions of each arrangement.
        workers: cores of the pool of tool calls. The pool of answers has 1 and runs at lower priority.
        seed: seed of the arrivals and of the choice of slow proofs.
    """
    plan = _plan(batches, calls_per_s, random.Random(seed))
    waits: dict[str, list[float]] = {"own pool": [], "one shared pool": []}
    proofs: dict[str, list[float]] = {"own pool": [], "one shared pool": []}
    num_bad = 0
    with Sandbox(workers=workers) as tools, Sandbox(workers=1, preload=(), niceness=19) as answers:
        for _ in range(rounds):
            for name, pool in (("own pool", answers), ("one shared pool", tools)):
                tool_s, proof_s, bad = _play(plan, tools, pool)
                waits[name] += tool_s
                proofs[name] += proof_s
                num_bad += bad
    return {
        "tool_calls": sum(is_tool for _, is_tool, _ in plan),
        "answers": batches * BATCH,
        "calls_per_s": calls_per_s,
        "slow_share": SLOW_SHARE,
        "slow_s": SLOW_S,
        "bad": num_bad,
        "tool_wait_ms": {name: percentiles_ms(seconds) for name, seconds in waits.items()},
        "answer_wait_ms": {name: percentiles_ms(seconds) for name, seconds in proofs.items()},
    }


def _plan(batches: int, calls_per_s: float, stream: random.Random) -> list[tuple[float, bool, str]]:
    """Arrivals: time, whether it is a tool call, code."""
    plan = []
    for batch in range(batches):
        slow = set(stream.sample(range(BATCH), round(SLOW_SHARE * BATCH)))
        plan += [
            (1.0 + batch * EVERY_S, False, _SLOW_PROOF if k in slow else _QUICK_PROOF) for k in range(BATCH)
        ]
    at = 0.0
    while (at := at + stream.expovariate(calls_per_s)) < batches * EVERY_S:
        plan.append((at, True, _TOOL))
    return sorted(plan, key=lambda arrival: arrival[0])


def _play(
    plan: list[tuple[float, bool, str]], tools: Sandbox, answers: Sandbox
) -> tuple[list[float], list[float], int]:
    """Waits of tool calls and of answers, and the number of those that did not end with ok."""
    waits: dict[bool, list[float]] = {True: [], False: []}
    futures: list[Future[ToolResult]] = []
    start = time.perf_counter()
    for index, (at, is_tool, code) in enumerate(plan):
        time.sleep(max(0.0, start + at - time.perf_counter()))
        due = start + at
        future = (tools if is_tool else answers).submit(ToolCall(id=f"{index}", code=code, limits=LIMITS))
        future.add_done_callback(
            lambda _, due=due, kind=is_tool: waits[kind].append(time.perf_counter() - due)
        )
        futures.append(future)
    results = [future.result() for future in futures]
    return waits[True], waits[False], sum(result.status is not Status.OK for result in results)
