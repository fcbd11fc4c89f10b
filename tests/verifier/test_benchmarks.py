"""Declarations and loaders of the benchmarks."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from verifier import declaration
from verifier.availability import listing
from verifier.benchmarks import ALL, DataUnavailable, WrongData, benchmark


@pytest.mark.parametrize(
    ("name", "size"), [("aime24", 30), ("aime25", 30), ("math500", 500), ("gsm8k", 1319)]
)
def test_real_rows_load_with_the_accepted_digest(name: str, size: int, shared_dir: Path) -> None:
    problems = benchmark(name).load(shared_dir / "data")
    assert len(problems) == size == benchmark(name).num_questions
    assert all(problem.answer and problem.prompt for problem in problems)


def test_a_changed_answer_is_refused_by_the_digest(tmp_path: Path, shared_dir: Path) -> None:
    rows = [json.loads(line) for line in (shared_dir / "data" / "aime24.jsonl").read_text().splitlines()]
    rows[3]["answer"] = "999"
    (tmp_path / "aime24.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(WrongData, match="digest"):
        benchmark("aime24").load(tmp_path)


def _ring(tmp_path: Path, *rows: Mapping[str, object]) -> Path:
    (tmp_path / "test-numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_a_procedural_ring_is_read_from_the_runs_folder(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "prompt": "2+2?",
        "answer": "4",
        "family": "sum",
        "level": 1,
        "split": "numbers",
        "params": "",
    }
    assert [problem.answer for problem in benchmark("procedural-numbers").load(_ring(tmp_path, row))] == ["4"]


def test_duplicate_ids_missing_answers_and_broken_lines_are_named(tmp_path: Path) -> None:
    ring = benchmark("procedural-numbers")
    row = {"id": "a", "prompt": "?", "answer": "4"}
    with pytest.raises(WrongData, match="'a' occurs twice"):
        ring.load(_ring(tmp_path, row, row))
    with pytest.raises(WrongData, match="has no answer"):
        ring.load(_ring(tmp_path, {**row, "answer": ""}))
    with pytest.raises(WrongData, match="row 1"):
        ring.load(_ring(tmp_path, {"id": "a", "prompt": "?"}))
    (tmp_path / "test-numbers.jsonl").write_text("{broken\n")
    with pytest.raises(WrongData, match="line 1"):
        ring.load(tmp_path)


def test_missing_data_are_reported_with_their_source(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailable, match="trainer prepare"):
        benchmark("procedural-family").load(tmp_path)


@pytest.mark.parametrize(("name", "is_held_to_it"), [("ifeval", True), ("math500", False)])
def test_rows_of_a_branch_require_the_digest_and_those_of_a_commit_do_not(
    name: str, is_held_to_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch moves: new rows under the old name would mix two editions in one column."""
    rows = {
        "ifeval": {"key": 1, "prompt": "?", "instruction_id_list": [], "kwargs": []},
        "math500": {"unique_id": "a", "problem": "?", "answer": "4", "subject": "algebra", "level": 1},
    }
    monkeypatch.setattr(declaration, "_hub_rows", lambda declared: [rows[declared.name]])
    assert benchmark(name).hub is not None
    if is_held_to_it:
        with pytest.raises(DataUnavailable, match="digest"):
            benchmark(name).load()
    else:
        assert [problem.answer for problem in benchmark(name).load()] == ["4"]


def test_hmmt_rows_are_read_with_their_exact_golds(tmp_path: Path) -> None:
    rows = [
        {"problem_idx": 1, "problem": "?", "answer": "\\frac{1}{2}"},
        {"problem_idx": 2, "problem": "!", "answer": "7"},
    ]
    (tmp_path / "hmmt25.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = benchmark("hmmt25").load(tmp_path)
    assert [(problem.id, problem.answer) for problem in problems] == [
        ("hmmt25-feb-1", "\\frac{1}{2}"),
        ("hmmt25-feb-2", "7"),
    ]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="aime24"):
        benchmark("aime1999")


def test_the_listing_has_a_row_for_each_benchmark_and_reports_missing_data(tmp_path: Path) -> None:
    rows = listing(tmp_path)
    assert [row["name"] for row in rows] == [declared.name for declared in ALL]
    assert all(row["status"].startswith("not evaluated: ") for row in rows)
