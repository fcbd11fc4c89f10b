"""`read_reference`: the published tables of paper.yaml, checked before a table or a figure reads a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from records.errors import ConfigError
from records.files import read_text

Reference = dict[str, Any]
"""Name of a published table -> the table."""

TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table1": (("math500", "aime24", "aime25", "bfcl_v3", "ifeval"), ("SFT model",)),
    "table3": (("math500", "aime24", "aime25", "hmmt25"), ()),
    "table4": (("aime24", "aime25"), ()),
    "table5": (("gpqa_diamond", "bfcl_v3", "ifeval"), ()),
    "stages": (("steps", "aime24", "aime25"), ("rl1", "rl2", "rl3")),
}
"""Table -> columns and rows that the analysis reads; every row is as long as the columns."""
LENGTHS = ("start", "rl1", "rl2", "rl3")


def read_reference(folder: Path) -> Reference:
    """Return the published numbers.

    Raises:
        ConfigError: paper.yaml is missing, no YAML, or lacks a part.
    """
    path = folder / "paper.yaml"
    try:
        loaded = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML ({str(error).splitlines()[0]}); restore it") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: holds no tables; restore it")
    for name, (needed, row_names) in TABLES.items():
        table = loaded.get(name)
        columns = table.get("columns") if isinstance(table, dict) else None
        rows = table.get("rows") if isinstance(table, dict) else None
        if not isinstance(columns, list) or not isinstance(rows, dict):
            raise ConfigError(f"{path}: {name} lacks columns or rows; restore it")
        if absent := [part for part in needed if part not in columns] + [
            r for r in row_names if r not in rows
        ]:
            raise ConfigError(f"{path}: {name} lacks {absent[0]}; restore it")
        for row, values in rows.items():
            if not isinstance(values, list) or len(values) != len(columns):
                raise ConfigError(f"{path}: {name}: row {row} has not one value per column; restore it")
    training = loaded.get("training")
    lengths = training.get("response_len_tokens") if isinstance(training, dict) else None
    if not isinstance(lengths, dict) or not all(isinstance(lengths.get(name), int) for name in LENGTHS):
        raise ConfigError(f"{path}: training.response_len_tokens lacks {', '.join(LENGTHS)}; restore it")
    if not isinstance(loaded.get("conflicts"), list):
        raise ConfigError(f"{path}: conflicts is missing; restore it")
    return loaded
