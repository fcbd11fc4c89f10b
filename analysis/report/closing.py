"""The last lines of a run: where the report is, how long each phase took, how the scores stand."""

from __future__ import annotations

import json
from pathlib import Path


def closing_lines(run: str) -> list[str]:
    """Lines to print after a successful run; empty when the run made no report."""
    path = Path(run) / "report" / "report.json"
    if not path.is_file():
        return []
    report = json.loads(path.read_text(encoding="utf-8"))
    lines = [f"report: {path.with_name('index.html')}"]
    lines += [f"  {phase:<24} {seconds:8.1f} s" for phase, seconds in report["phases_s"].items()]
    if report["wall_s"] is not None:
        lines.append(f"  {'whole call':<24} {report['wall_s']:8.1f} s")
    return lines
