"""`MEASURES`: every speed of the suite that has a goal, and how to read it from the record of its program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A measuring program; `python -m MODULE ARGUMENTS` prints its record as one JSON object."""

    module: str
    arguments: tuple[str, ...] = ("--json",)
    quick: tuple[str, ...] = ()
    """Arguments added for a short run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One row of the table."""

    name: str
    program: Program
    goal: float
    unit: str
    is_ceiling: bool = False
    """The goal is the largest value that reaches it; else the smallest."""
    read: Callable[[Record], float]
    """KeyError or IndexError where the record has no such number."""
    absent: str = "the record lacks it"
    """Why it may be missing."""

    def reached(self, value: float) -> bool:
        return value <= self.goal if self.is_ceiling else value >= self.goal


SANDBOX = Program(module="bench.sandbox", quick=("--quick",))
SCHEDULE = Program(module="bench.schedule", quick=("--quick",))
SCHEDULER_CALL = Program(module="bench.scheduler_call")
DECODE = Program(module="bench.decode", quick=("--rounds", "1"))
TRAINING_PASS = Program(module="bench.training_pass", quick=("--rounds", "1"))
TRL = Program(module="bench.trl_race", quick=("--rounds", "1"))

_NO_PEER = "no peer given: --against code-judge=URL"
_NO_TRL = "TRL is not installed: the extra race"


def _decode(batch: int) -> Callable[[Record], float]:
    return lambda record: next(row["best_ratio"] for row in record["results"] if row["batch"] == batch)


def _pass(compute: str) -> Callable[[Record], float]:
    return lambda record: next(row["best_share"] for row in record["passes"] if row["compute"] == compute)


def _least_margin(record: Record) -> float:
    """Return the makespan of the best hand-tuned cap over that of the forecast policy, the least of the workloads."""
    ratios = []
    for workload in record["workloads"]:
        cap = f"cap_{workload['best_cap']}"
        ratios += [
            row["simulated_makespan_over_ours"]
            for row in record["summary"]
            if (row["workload"], row["policy"]) == (workload["name"], cap)
        ]
    return min(ratios)


MEASURES = (
    Measure(
        name="sandbox goodput over code-judge, no loops",
        program=SANDBOX,
        goal=20.0,
        unit="x",
        read=lambda record: record["ratio"]["median"],
        absent=_NO_PEER,
    ),
    Measure(
        name="sandbox goodput over code-judge, 5% loops",
        program=SANDBOX,
        goal=10.0,
        unit="x",
        read=lambda record: record["ratio_with_loops"]["median"],
        absent=_NO_PEER,
    ),
    Measure(
        name="session cell, median",
        program=SANDBOX,
        goal=0.3,
        unit="ms",
        is_ceiling=True,
        read=lambda record: record["session"]["p50_ms"],
    ),
    Measure(
        name="session cell over a bare cell",
        program=SANDBOX,
        goal=5.0,
        unit="x",
        is_ceiling=True,
        read=lambda record: record["session"]["ratio"],
    ),
    *(
        Measure(
            name=f"engine decode over generate, batch {batch}",
            program=DECODE,
            goal=3.0,
            unit="x",
            read=_decode(batch),
        )
        for batch in (128, 512)
    ),
    *(
        Measure(
            name=f"training pass, share of the best {compute} product",
            program=TRAINING_PASS,
            goal=0.5,
            unit="",
            read=_pass(compute),
        )
        for compute in ("float32", "bfloat16")
    ),
    *(
        Measure(
            name=f"{what} over TRL, {lengths} lengths",
            program=TRL,
            goal=goal,
            unit="x",
            read=lambda record, lengths=lengths, kind=kind: record[lengths][kind]["ratio"],
            absent=_NO_TRL,
        )
        for what, lengths, kind, goal in (
            ("update", "ragged", "update", 2.5),
            ("update", "equal", "update", 1.5),
            ("whole step", "ragged", "step", 2.0),
        )
    ),
    Measure(
        name="scheduler call with 512 engines, mean",
        program=SCHEDULER_CALL,
        goal=20.0,
        unit="us",
        is_ceiling=True,
        read=lambda record: record["mean_us"],
    ),
    Measure(
        name="simulated makespan, best cap over forecast",
        program=SCHEDULE,
        goal=0.98,
        unit="x",
        read=_least_margin,
    ),
)
