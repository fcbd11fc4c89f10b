"""config/schema.json must match the config model: editors and Snakemake then check the same keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STALE = "config/schema.json: differs from config/model.py; rewrite it with `python -m config schema`"


def problems(root: Path) -> list[str]:
    """The schema on disk against the model."""
    from config.model import json_schema

    return drift(root / "config" / "schema.json", json_schema())


def drift(path: Path, expected: dict[str, Any]) -> list[str]:
    """Empty if the file holds the expected schema."""
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        return [STALE]
    return [] if stored == expected else [STALE]
