"""`write_claims`: writes the verdicts as JSON for the report and as CSV for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from analysis.claims.claims import ClaimVerdict
from analysis.table_file import save_table
from records.files import write_json
from records.run_folder import CLAIMS

COLUMNS = [
    "id",
    "verdict",
    "evidence",
    "unit",
    "effect_unit",
    "value",
    "low",
    "high",
    "p",
    "p_holm",
    "units",
    "questions",
    "smallest",
    "text",
]


def write_claims(rows: Sequence[ClaimVerdict], out: Path) -> None:
    """Write claims.json with all fields, and claims.csv with those that fit a line."""
    table = [asdict(row) for row in rows]
    write_json(out / CLAIMS, table)
    save_table(pd.DataFrame(table)[COLUMNS], out / "claims.csv")
