"""Sample files of other harnesses become rows that can be graded only."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.importers import Harness, Imported, ImportFailed, import_samples
from records.trajectory import IdsSource
from records.trajectory_row import from_row, to_row
from records.verdict import VerdictKind
from verifier.graders.grade import grade_answer


def _read(path: Path, harness: Harness, *rows: Any) -> list[Imported]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return import_samples(path, harness, run="foreign", checkpoint="m", benchmark="aime24")


ROWS: dict[Harness, list[dict[str, Any]]] = {
    Harness.LM_EVAL: [
        {
            "doc_id": 7,
            "target": "12",
            "resps": [["\\boxed{12}", "\\boxed{13}"]],
            "filtered_resps": ["12"],
            "doc": {},
        },
    ],
    Harness.LIGHTEVAL: [
        {
            "doc": {"id": "7", "choices": ["12"], "gold_index": [0], "query": "?"},
            "model_response": {"text": ["\\boxed{12}", "\\boxed{13}"]},
        },
    ],
    Harness.VERL: [
        {"input": "How many?", "output": "\\boxed{12}", "gts": "12", "score": 1.0, "step": 0},
        {"input": "How many?", "output": "\\boxed{13}", "gts": "12", "score": 0.0, "step": 0},
    ],
}


@pytest.mark.parametrize("harness", list(Harness))
def test_imported_samples_keep_text_and_gold_and_are_numbered_per_problem(
    harness: Harness, tmp_path: Path
) -> None:
    found = _read(tmp_path / "samples.jsonl", harness, *ROWS[harness])
    assert [row.rollout.sample for row in found] == [0, 1]
    assert len({row.rollout.problem for row in found}) == 1
    verdicts = [grade_answer(row.gold, row.rollout.turns[0].text).verdict for row in found]
    assert verdicts == [VerdictKind.CORRECT, VerdictKind.WRONG]


@pytest.mark.parametrize("harness", list(Harness))
def test_imported_rows_are_marked_as_retokenised(harness: Harness, tmp_path: Path) -> None:
    row = _read(tmp_path / "samples.jsonl", harness, *ROWS[harness])[0].rollout
    assert row.ids_source is IdsSource.RETOKENISED
    assert from_row(json.loads(json.dumps(to_row(row)))) == row.selected()


def test_a_parquet_of_details_is_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "details.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS[Harness.LIGHTEVAL]), path)
    found = import_samples(path, Harness.LIGHTEVAL, run="r", checkpoint="m", benchmark="b")
    assert [row.gold for row in found] == ["12", "12"]


@pytest.mark.parametrize("harness", list(Harness))
@pytest.mark.parametrize("row", [{}, [], {"doc_id": 1, "target": "2", "resps": [[3]]}])
def test_a_row_of_another_kind_is_refused_with_its_number(harness: Harness, row: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"(row|line) 1"):
        _read(tmp_path / "samples.jsonl", harness, row)
