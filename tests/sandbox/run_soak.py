"""Random hostile programs beside honest ones for a given time: nothing is lost, wrong or left, and all stays flat.

    python -m tests.sandbox.run_soak --seconds 1800 --seed 0

Hostile programs are cases of hostile.jsonl and attacks of run_attacks.py: cut, joined, repeated and changed at random
by the seed, as calls and as cells of sessions. Exit status 1 when anything fell short.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from records.tool_call import Limits, Status, ToolResult
from sandbox.client.client import Sandbox
from tests.sandbox import run_attacks
from tests.sandbox.conftest import own_kb
from tests.sandbox.run_cases import read_cases

IN_FLIGHT = 48
HONEST_FRAC = 0.4
MAX_GROWTH_KB = 8 * 1024
"""Bytes of one process, at rest. Inputs of 1 MB pass through the supervisor by the dozen: none may stay."""
NUM_LOOKS = 12
LIMITS = Limits(cpu_s=1.0, wall_s=20.0)


def programs() -> list[str]:
    """What hostile programs are composed of."""
    attacks = [
        run_attacks.METADATA % "/etc/passwd",
        run_attacks.LOOK % "/etc/passwd",
        run_attacks.NAMES,
        run_attacks.FILES % 3000,
        run_attacks.FORGE_AND_SHUT,
        run_attacks.TAKE_SERVER,
    ]
    return [case["code"] for case in read_cases() if "import numpy" not in case["code"]] + attacks


def mutated(rng: random.Random, pieces: list[str]) -> str:
    """One to three programs, joined; lines left out, doubled and moved, numbers changed."""
    lines = "\n".join(rng.choice(pieces) for _ in range(rng.choice((1, 1, 2, 3)))).split("\n")
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        at, change = rng.randrange(len(lines)), rng.randrange(4)
        if change == 0 and len(lines) > 1:
            del lines[at]
        elif change == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif change == 2:
            lines[at] = lines[at].replace(rng.choice("0123456789"), str(rng.randrange(10**6)), 1)
        else:
            lines[at] = f"try:\n    {lines[at].strip()}\nexcept BaseException: pass"
    return "\n".join(lines)


class Soak:
    """The calls in flight and the results of the ended ones."""

    def __init__(self, sandbox: Sandbox, seed: int) -> None:
        self.sandbox = sandbox
        self.rng = random.Random(seed)
        self.pieces = programs()
        self.flying: list[tuple[int | None, str, Future[ToolResult]]] = []
        self.statuses: Counter[str] = Counter()
        self.faults: list[str] = []
        self.num_honest = self.num_sessions = 0

    def send(self) -> None:
        """Another call: honest, hostile, or a hostile cell."""
        rng = self.rng
        if rng.random() < HONEST_FRAC:
            number = rng.randrange(1, 10_000)
            self.num_honest += 1
            self.flying.append((number, "", self.sandbox.submit(run_attacks.honest(number))))
            return
        code = mutated(rng, self.pieces)
        session = f"s{rng.randrange(6)}" if rng.random() < 0.2 else None
        call = run_attacks.call(
            code, limits=LIMITS, session=session, stdin="x" * rng.choice((0, 0, 10, 10**6))
        )
        self.flying.append((None, code, self.sandbox.submit(call)))
        if session is not None and rng.random() < 0.3:
            self.num_sessions += 1
            self.sandbox.close_session(session)

    def collect(self) -> None:
        """Check the ended calls."""
        still = []
        for number, code, future in self.flying:
            if not future.done():
                still.append((number, code, future))
                continue
            result = future.result()
            self.statuses[result.status] += 1
            if number is not None and (fault := run_attacks.fault_of_honest(number, result)):
                self.faults.append(fault[:600])
            elif number is None and result.status is Status.LOST:
                self.faults.append(f"lost: {result.error} of {code[:1500]!r}")
        self.flying = still


def figures(sandbox: Sandbox) -> dict[str, int]:
    """Numbers that must stay flat."""
    status = sandbox.status()
    pids = [status["supervisor"], *status["zygotes"]]
    return {
        "descriptors": status["open_descriptors"] - 4 * status["sessions"],
        "supervisor_kb": own_kb(pids[0]),
        "zygotes_kb": sum(own_kb(pid) for pid in pids[1:]),
        "zygote_descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in status["zygotes"]),
        "children": sum(
            len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) for pid in pids[1:]
        ),
        "faults": status["faults"],
        "unclean_seats": status["unclean_seats"],
    }


def look_at_memory(soak: Soak) -> dict[str, int]:
    """One point of the curve of each process."""
    now = figures(soak.sandbox)
    ended = sum(soak.statuses.values())
    return {"ended": ended, "supervisor_kb": now["supervisor_kb"], "zygotes_kb": now["zygotes_kb"]}


def drain(soak: Soak) -> None:
    """Wait for everything in flight, then end the sessions."""
    while soak.flying:
        soak.collect()
        time.sleep(0.05)
    for number in range(6):
        soak.sandbox.close_session(f"s{number}")
    until = time.monotonic() + 60.0
    while time.monotonic() < until and soak.sandbox.status()["sessions"]:
        time.sleep(0.1)
    time.sleep(1.0)


def run(seconds: float, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Soak, and return all observations."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        with Sandbox(
            workers=2,
            slots_per_worker=16,
            preload=(),
            tmp_dir=folder,
            niceness=0,
            decayed_niceness=0,
            **settings,
        ) as sandbox:
            supervisor, zygotes = sandbox.started["supervisor"], sandbox.started["zygotes"]
            soak = Soak(sandbox, seed)
            for _ in range(IN_FLIGHT * 2):
                soak.send()
            drain(soak)
            before, until = figures(sandbox), time.monotonic() + seconds
            curve, next_look_t = [], 0.0
            while time.monotonic() < until:
                soak.collect()
                if time.monotonic() >= next_look_t:
                    next_look_t = time.monotonic() + seconds / NUM_LOOKS
                    curve.append(look_at_memory(soak))
                while len(soak.flying) < IN_FLIGHT:
                    soak.send()
                time.sleep(0.02)
            drain(soak)
            after, status = figures(sandbox), sandbox.status()
            if status["supervisor"] != supervisor or status["zygotes"] != zygotes:
                soak.faults.append(f"processes changed: {supervisor} {zygotes} -> {status}")
            if status["faults"]:
                soak.faults.append(status["last_fault"])
            for key in ("descriptors", "zygote_descriptors", "children", "unclean_seats"):
                if after[key] > before[key] + 2:
                    soak.faults.append(f"{key} grew from {before[key]} to {after[key]}")
            for key in ("supervisor_kb", "zygotes_kb"):
                if after[key] > before[key] + MAX_GROWTH_KB:
                    soak.faults.append(f"{key} grew from {before[key]} to {after[key]}")
            layers = [state["layer"] for state in sandbox.started["states"] if state["used"]]
        left = os.listdir(folder)
        if left or Path(f"/proc/{supervisor}").exists():
            soak.faults.append(f"left behind: {left}")
    return {
        "seed": seed, "seconds": seconds, "honest": soak.num_honest, "ended": dict(soak.statuses),
        "before": before, "after": after, "curve": curve, "layers": layers, "num_faults": len(soak.faults),
        "faults": soak.faults[:10],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--disable", default="", help="layers to leave out, comma separated")
    arguments = parser.parse_args()
    disabled = [name for name in arguments.disable.split(",") if name]
    record = run(arguments.seconds, arguments.seed, {"disabled_layers": disabled} if disabled else {})
    print(json.dumps(record, indent=1))
    sys.exit(bool(record["faults"]))


if __name__ == "__main__":
    main()
