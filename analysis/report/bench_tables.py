"""`scheduler_rows` and `sandbox_rows`: typed bench files, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from analysis.inputs.runs import Run
from records.errors import ConfigError

Positive = Annotated[float, Field(gt=0)]

SCHEDULER_COLUMNS = ["workload", "policy", "makespan_s", "over_ours", "low", "high", "over_bound"]
SANDBOX_COLUMNS = ["in_flight", "ours", "peer"]


class _Open(BaseModel):
    """Base of bench records; other keys are ignored."""

    model_config = ConfigDict(allow_inf_nan=False)


class _Simulated(_Open):
    workload: str
    seed: int
    policy: str
    simulated_makespan_s: Positive


class _Summed(_Open):
    workload: str
    policy: str
    simulated_makespan_s: Positive
    simulated_makespan_over_ours: Positive
    low: Positive | None
    high: Positive | None
    simulated_makespan_over_bound: Positive


class _Scheduler(_Open):
    seeds: Annotated[list[int], Field(min_length=1)]
    runs: Annotated[list[_Simulated], Field(min_length=1)]
    summary: Annotated[list[_Summed], Field(min_length=1)]

    @model_validator(mode="after")
    def _once(self) -> _Scheduler:
        """Refuse a repeated simulation, which would count as two seeds."""
        keys = [(run.workload, run.seed, run.policy) for run in self.runs]
        rows = [(row.workload, row.policy) for row in self.summary]
        if len(keys) != len(set(keys)) or len(rows) != len(set(rows)):
            raise ValueError("a workload, seed and policy comes twice")
        if {policy for _, policy in rows} != {policy for _, _, policy in keys}:
            raise ValueError("runs and summary name other policies")
        return self


class _Load(_Open):
    in_flight: Positive
    ours: Positive
    peer: Positive | None = None


class _Sandbox(_Open):
    calls_per_s: Annotated[list[_Load], Field(min_length=1)]


def scheduler_bench(run: Run) -> dict[str, Any]:
    """The record of the scheduler study; empty when it did not run. Raises ConfigError when it is damaged."""
    return _bench(run, "scheduler", _Scheduler)


def sandbox_bench(run: Run) -> dict[str, Any]:
    """The record of the sandbox's speed; empty when it did not run. Raises ConfigError when it is damaged."""
    return _bench(run, "sandbox", _Sandbox)


def _bench(run: Run, name: str, shape: type[BaseModel]) -> dict[str, Any]:
    folder, bench = run.folder.bench(name), run.bench(name)
    if not bench:
        return bench
    try:
        shape.model_validate(bench)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{folder}: {where}: {first['msg']}; delete it and run the bench again") from None
    return bench


def scheduler_rows(bench: Mapping[str, Any]) -> pd.DataFrame:
    """Return the summary of `trainer schedule`: simulated makespans, and their ratio to the suite's with its interval.

    One workload seed has no spread: the interval is then NaN, not of width zero.
    """
    several = len(bench.get("seeds", [])) > 1
    rows = [
        {
            "workload": row["workload"],
            "policy": row["policy"],
            "makespan_s": row["simulated_makespan_s"],
            "over_ours": row["simulated_makespan_over_ours"],
            "low": row["low"] if several else np.nan,
            "high": row["high"] if several else np.nan,
            "over_bound": row["simulated_makespan_over_bound"],
        }
        for row in bench.get("summary", [])
    ]
    return pd.DataFrame(rows, columns=SCHEDULER_COLUMNS)


def makespan_ratios(bench: Mapping[str, Any], a: str, b: str) -> dict[str, list[float]]:
    """Simulated makespan of policy a over that of b, per workload, one ratio per workload seed."""
    spans = {
        (run["workload"], run["seed"], run["policy"]): run["simulated_makespan_s"]
        for run in bench.get("runs", [])
    }
    ratios: dict[str, list[float]] = {}
    for (workload, seed, policy), span in sorted(spans.items()):
        if policy == a and (workload, seed, b) in spans:
            ratios.setdefault(workload, []).append(span / spans[workload, seed, b])
    return ratios


def sandbox_rows(bench: Mapping[str, Any]) -> pd.DataFrame:
    """Return verified calls per second against calls in flight, of both services (NaN where not measured)."""
    return pd.DataFrame(
        [{name: row.get(name, np.nan) for name in SANDBOX_COLUMNS} for row in bench.get("calls_per_s", [])],
        columns=SANDBOX_COLUMNS,
    )
