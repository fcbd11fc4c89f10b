"""Table 5: own numbers of each kind in their columns, published ones as printed."""

from __future__ import annotations

from pathlib import Path

import yaml

from analysis.inputs.runs import Run
from analysis.tables import beyond, sft
from analysis.tables.grid import Grid
from tests.analysis.fake_run import put, summary_json
from tests.analysis.settings import SETTINGS

REFERENCE = yaml.safe_load(Path("results/reference/paper.yaml").read_text())


def row(benchmark: str, metric: str, value: float, grader: str = "strict") -> dict:
    return {
        "checkpoint": "rl3", "benchmark": benchmark, "metric": metric, "temperature": 0.0, "control": "none",
        "value": value, "low": 0.0, "high": 1.0, "num_questions": 3, "num_samples": 3, "grader": grader,
    }  # fmt: skip


def run_with(folder: Path, *rows: dict) -> Run:
    put(folder / "eval" / "rl3" / "summary.json", summary_json(list(rows)))
    return Run.open(folder)


def cell(grid: Grid, group: str, model: str, column: str) -> str:
    (found,) = [row for row in grid.groups[group] if row[0] == model]
    return found[list(grid.header).index(column)]


def test_each_number_is_in_its_column(tmp_path: Path) -> None:
    run = run_with(
        tmp_path,
        row("bfcl_v3", "avg@1", 0.9), row("bfcl_v3", "overall_v3", 0.25),
        row("ifeval", "avg@1", 0.5), row("ifeval", "avg@1", 0.625, "loose"),
        row("ifeval", "instructions@1", 0.75), row("ifeval", "without_known_issues@1", 0.1),
    )  # fmt: skip
    grid = beyond.grid(run, SETTINGS, REFERENCE)
    assert cell(grid, "this run", "RL 3", "BFCL v3") == "25.0 [0.0, 100.0]"
    assert cell(grid, "this run", "RL 3", "IFEval").startswith("50.0 ")
    assert cell(grid, "this run", "RL 3", "IFEval, loose").startswith("62.5 ")
    assert cell(grid, "this run", "RL 3", "IFEval, instructions").startswith("75.0 ")
    assert cell(grid, "this run", "RL 3", "GPQA-Diamond") == "-"
    assert cell(grid, "published", "rStar2-Agent-14B", "BFCL v3") == "60.8"
    assert cell(grid, "published", "rStar2-Agent-14B", "IFEval, loose") == "-"


def test_a_part_of_bfcl_is_not_compared_with_the_published_score(tmp_path: Path) -> None:
    run = run_with(tmp_path, row("bfcl_v3", "avg@1", 0.9), row("bfcl_v3_path", "avg@1", 0.9))
    assert list(beyond.grid(run, SETTINGS, REFERENCE).groups["this run"]) == []
    assert list(sft.grid(run, SETTINGS, REFERENCE).groups["this run"]) == []
