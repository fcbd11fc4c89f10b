"""Reading a run folder, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.inputs.runs import Run, find_score
from records.errors import ConfigError
from records.evaluation import EvaluationSummary, Score
from records.manifest import list_folder
from tests.analysis.fake_run import FakeRun, put, score_row, summary_json


def test_stages_come_in_training_order_with_global_steps(run: Run) -> None:
    metrics = run.metrics()
    assert metrics["stage"].drop_duplicates().tolist() == ["rl1", "rl2", "rl3"]
    assert metrics["step"].tolist() == list(range(1, len(metrics) + 1))


def test_the_score_nearest_temperature_1_with_most_samples_is_found(tmp_path: Path) -> None:
    rows = [
        score_row("rl3", "b", {"q": [1.0] * k}, k=k, temperature=temperature)
        for k, temperature in ((16, 0.6), (1, 1.0), (4, 1.0))
    ]
    found = find_score([Score(**row) for row in rows], "rl3", "b")
    assert found is not None
    assert (found.metric, found.temperature) == ("avg@4", 1.0)


def test_a_control_never_replaces_a_score(run: Run) -> None:
    found = find_score(run.scores(), "rl3", "procedural")
    assert found is not None
    assert found.control == "none"
    assert found.metric == "avg@4"


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run the evaluation first"):
        Run.open(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such run folder"):
        Run.open(tmp_path / "absent")


def test_a_score_without_a_field_names_file_and_field(tmp_path: Path) -> None:
    row = score_row("rl3", "b", {"q": [1.0]}, k=1)
    del row["grader"]
    put(tmp_path / "summary.json", summary_json([row]))
    with pytest.raises(ConfigError, match=r"summary\.json: scores\.0\.grader: Field required"):
        EvaluationSummary.load(tmp_path)


def test_a_torn_metrics_line_is_named(tmp_path: Path) -> None:
    root = FakeRun(questions=2, k=1, tokens=False, only=("sft",)).write(tmp_path / "torn")
    with (root / "metrics" / "rl2.jsonl").open("a") as file:
        file.write('{"step": 9, ')
    with pytest.raises(ConfigError, match=r"rl2\.jsonl: line 7: is not JSON"):
        Run.open(root).metrics()


def test_a_step_written_twice_counts_once_with_its_last_value(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "rl1.jsonl").write_text('{"step": 1, "accuracy": 0.1}\n{"step": 1, "accuracy": 0.2}\n')
    assert Run.open(tmp_path).metrics()["accuracy"].tolist() == [0.2]


def test_a_manifest_lists_every_file_and_no_date(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("a\n")
    list_folder(tmp_path, {"stage": "tables", "parent": None, "data": None})
    first = (tmp_path / "manifest.json").read_bytes()
    list_folder(tmp_path, {"stage": "tables", "parent": None, "data": None})
    assert (tmp_path / "manifest.json").read_bytes() == first
    assert list(json.loads(first)["files"]) == ["data/x.csv"]
