"""Tables out of the bench files, whatever is absent in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

SCHEDULER_COLUMNS = ["workload", "policy", "makespan_s", "over_ours", "low", "high", "over_bound"]
SANDBOX_COLUMNS = ["in_flight", "ours", "peer"]


def scheduler_rows(bench: Mapping[str, Any]) -> pd.DataFrame:
    """The summary of `trainer schedule`: simulated makespans, and their ratio to ours with its interval.

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
    """Verified calls per second against calls in flight, ours and the peer's (NaN where it was not measured)."""
    return pd.DataFrame(
        [{name: row.get(name, np.nan) for name in SANDBOX_COLUMNS} for row in bench.get("calls_per_s", [])],
        columns=SANDBOX_COLUMNS,
    )
