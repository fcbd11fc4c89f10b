"""`run_bench`: runs the chosen measures and returns them as one JSON object."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bench.sandbox import burst, cells, interference, kills, offered, peers, race, soak, starvation
from bench.sandbox.workload import mix
from records.errors import UserError
from sandbox import Sandbox

SECTIONS = (
    "race",
    "levels",
    "session",
    "deadline",
    "paper_load",
    "waterfall",
    "kills",
    "offered",
    "starvation",
    "interference",
    "burst",
    "soak",
)
"""Available measures, in the order of running; the last ones take minutes each."""
USUAL = ("race", "levels", "session", "deadline", "paper_load", "waterfall")
QUICK = ("race", "levels", "session", "deadline", "paper_load")
BURST_SLOTS = 64


def sections_of(names: Sequence[str], *, quick: bool) -> tuple[str, ...]:
    """Sections to run: the named ones, `all`, or by default the short ones.

    >>> sections_of(["soak", "race"], quick=False)
    ('race', 'soak')

    Raises:
        UserError: a section that does not exist.
    """
    unknown = sorted(set(names) - {*SECTIONS, "all"})
    if unknown:
        raise UserError(f"--only names {', '.join(unknown)}; sections are {', '.join(SECTIONS)}, or all")
    if "all" in names:
        return SECTIONS
    return tuple(name for name in SECTIONS if name in names) or (QUICK if quick else USUAL)


def run_bench(
    *,
    quick: bool,
    workers: int,
    judges: dict[str, str],
    only: Sequence[str] = (),
    size: int | None = None,
    rounds: int | None = None,
) -> dict[str, Any]:
    """Run the requested sections and return one JSON object. A wrong or lost answer makes `valid` false.

    Args:
        quick: small sizes, one round.
        workers: cores of the sandbox.
        judges: name -> address of running code-judge instances.
        only: sections to run; none: the default ones.
        size: programs of a pass, instead of the default number.
        rounds: rounds of every interleaved measure.

    Raises:
        UserError: an unknown section.
        SandboxError: the sandbox cannot start.
    """
    chosen = sections_of(only, quick=quick)
    size, rounds = size or (80 if quick else 500), rounds or (1 if quick else 3)
    record: dict[str, Any] = {"rounds": [], "calls_per_s": []}
    with Sandbox(workers=workers, slots_per_worker=max(4, 64 // workers)) as sandbox:
        record["isolation"] = {"level": sandbox.started["level"], "layers": sandbox.started["states"]}
        if "race" in chosen:
            record |= race.run_race(sandbox, judges, size=size, rounds=rounds, workers=workers)
        if "levels" in chosen:
            record["calls_per_s"] = _levels(sandbox, judges, quick=quick)
        if "session" in chosen:
            record["session"] = cells.session_cells(sandbox, 100 if quick else 1000)
        if "deadline" in chosen:
            record["deadline"] = cells.deadline_excess_s(sandbox, 2 if quick else 20)
    for name, measure in _alone(quick=quick, workers=workers, size=size, rounds=rounds).items():
        if name in chosen:
            record[name] = measure()
    record["valid"] = is_valid(record)
    record["quick"], record["sections"] = quick, list(chosen)
    record["load_average"] = peers.load_average()
    record["versions"] = {
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "cores": os.cpu_count(),
    }
    return record


def _alone(*, quick: bool, workers: int, size: int, rounds: int) -> dict[str, Callable[[], Any]]:
    """Measures that start their own sandboxes."""
    num_burst, num_soak = (500, 2_000) if quick else (45_000, 100_000)
    return {
        "waterfall": lambda: race.waterfall(size=size, rounds=rounds, workers=workers),
        "kills": lambda: kills.kills(rounds=rounds, workers=workers),
        "paper_load": lambda: offered.paper_load(size=size * 2, workers=workers),
        "offered": lambda: offered.offered_load(size=size, workers=workers),
        "starvation": lambda: starvation.starvation(
            batches=1 if quick else 2, calls_per_s=20.0, rounds=1 if quick else 2, workers=workers
        ),
        "interference": lambda: interference.interference(
            workers=workers, rounds=rounds, seconds=1.0 if quick else 3.0
        ),
        "burst": lambda: {
            "all": burst.burst(size=num_burst, workers=workers, slots=BURST_SLOTS),
            "limited": burst.refused_burst(
                size=num_burst, workers=workers, slots=BURST_SLOTS, queue_limit=num_burst // 45
            ),
        },
        "soak": lambda: soak.soak(size=num_soak, workers=workers),
    }


def _levels(sandbox: Sandbox, judges: dict[str, str], *, quick: bool) -> list[dict[str, Any]]:
    """Goodput against calls in flight."""
    rows = []
    programs = mix(40 if quick else 200, loops=False)
    for level in (1, 64) if quick else (1, 8, 64):
        row: dict[str, Any] = {"in_flight": level}
        row["ours"] = race.measure(sandbox, programs, in_flight=level, limits=race.CALM).goodput
        if judges:
            way = peers.Way(batch=1, in_flight=level)
            row["peer"] = max(peers.judge_goodput(url, programs[:80], way)[0] for url in judges.values())
        rows.append(row)
    return rows


def is_valid(record: dict[str, Any]) -> bool:
    """Whether no answer was wrong, lost or duplicated."""
    faults = sum(entry["wrong"] + entry["lost"] for entry in record["rounds"])
    if "burst" in record:
        counts, limited = record["burst"]["all"], record["burst"]["limited"]
        faults += counts["calls"] - counts["ok"] + counts["answered_twice"]
        faults += limited["calls"] - limited["ok_after_retries"]
    faults += sum(row["missing"] + row["doubled"] for row in record.get("kills", {}).values())
    faults += record.get("soak", {}).get("faults", 0) + record.get("paper_load", {}).get("bad", 0)
    return faults == 0
