"""`published`: published scores from `results/reference/paper.yaml`, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from records.evaluation import Score

REFERENCE = Path(__file__).parents[1] / "results" / "reference" / "paper.yaml"
TABLES = ("table1", "table3", "table5", "table6", "stages")
PUBLISHED_METRIC = {"bfcl_v3": "overall_v3", "bfcl_v3_prompt": "overall_v3"}
"""Metric of the published number, where it is not avg@k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published number, in percent."""

    model: str
    benchmark: str
    value: float
    table: str


def published(path: Path = REFERENCE) -> list[Published]:
    """Return every published score of every model, table by table; a model in two tables occurs twice."""
    import yaml

    reference = yaml.safe_load(path.read_text("utf-8"))
    return [
        Published(model=model, benchmark=name, value=float(value), table=table)
        for table in TABLES
        for model, values in reference[table]["rows"].items()
        for name, value in zip(reference[table]["columns"], values, strict=True)
        if isinstance(value, int | float) and name not in ("steps", "max_turns", "tools")
    ]


def beside_published(scores: Sequence[Score], path: Path = REFERENCE) -> str:
    """Return a Markdown table per benchmark: rows of this run with intervals, then published rows with their source."""
    rows = published(path)
    parts = ["# Scores beside published ones\n\nPercent. Published values carry no interval.\n"]
    for name in dict.fromkeys(row.benchmark for row in scores):
        own_rows = [row for row in scores if row.benchmark == name and _is_headline(row)]
        paper_rows = [row for row in rows if row.benchmark == name.removesuffix("_prompt")]
        lines = [f"\n## {name}\n\n| model | score | metric | source |\n|---|--:|---|---|"]
        lines += [_line(row) for row in own_rows]
        lines += [f"| {row.model} | {row.value:g} | pass@1 | paper, {row.table} |" for row in paper_rows]
        if own_rows:
            parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _is_headline(row: Score) -> bool:
    metric = PUBLISHED_METRIC.get(row.benchmark)
    is_it = row.metric == metric if metric else row.metric.startswith(("avg@", "instructions@"))
    return is_it and row.control == "none"


def _line(row: Score) -> str:
    cell = f"{100 * row.value:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]"
    metric = f"{row.metric}, {row.grader}, T {row.temperature:g}"
    return f"| {row.checkpoint} | {cell} | {metric} | this evaluation, {row.num_questions} questions |"
