"""Tables out of the bench files, whatever is absent in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

SCHEDULER_COLUMNS = ["workload", "policy", "makespan_s", "low", "high"]
SANDBOX_COLUMNS = ["in_flight", "ours", "peer"]


def scheduler_rows(bench: Mapping[str, Any]) -> pd.DataFrame:
    """Simulated makespans: workload, policy, makespan_s and its interval (NaN where none is stored)."""
    return pd.DataFrame(
        [
            {name: row.get(name, np.nan) for name in SCHEDULER_COLUMNS}
            for row in bench.get("results", [])
            if "makespan_s" in row
        ],
        columns=SCHEDULER_COLUMNS,
    )


def sandbox_rows(bench: Mapping[str, Any]) -> pd.DataFrame:
    """Verified calls per second against calls in flight, ours and the peer's (NaN where it was not measured)."""
    return pd.DataFrame(
        [{name: row.get(name, np.nan) for name in SANDBOX_COLUMNS} for row in bench.get("calls_per_s", [])],
        columns=SANDBOX_COLUMNS,
    )
