"""Writing the verdicts: JSON for the report, CSV for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.style import save_table
from analysis.inputs.files import write_json

COLUMNS = [
    "id",
    "verdict",
    "evidence",
    "unit",
    "value",
    "low",
    "high",
    "p",
    "p_holm",
    "seeds",
    "questions",
    "text",
]


def write_claims(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """claims.json with everything, claims.csv with what fits a line."""
    write_json(out / "claims.json", list(rows))
    save_table(pd.DataFrame(rows)[COLUMNS], out / "claims.csv")
