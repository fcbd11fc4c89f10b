"""`save_table`: a table as CSV."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from records.files import write_text


def save_table(table: pd.DataFrame, path: Path) -> None:
    """CSV with a fixed number format and line end."""
    write_text(path, table.to_csv(index=False, float_format="%.8g", lineterminator="\n"))
