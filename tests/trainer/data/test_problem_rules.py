"""Rules of a problem for RL, row by row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from config.recipes import ProblemPart, ProblemSource
from trainer.data.problem_rules import ORDER, read_problem
from trainer.data.sources import LINE

SOURCE = ProblemSource(name="s", file="s.jsonl", licence="MIT", where={})
PART = ProblemPart(sources=[SOURCE], max_abs_answer=10**12, max_chars=200)


def read(row: Any, source: ProblemSource = SOURCE) -> dict[str, Any]:
    line = row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
    return read_problem({LINE: line.encode().decode("latin-1")}, 7, source, PART)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("34", "34"),
        ("-12", "-12"),
        ("007", "7"),
        ("1,024", "1024"),
        ("1{,}024", "1024"),
        ("$\\phantom{}5$", "not_an_integer"),
        ("$5$", "5"),
        ("\\(5\\)", "5"),
        ("+5.", "5"),
        (12, "12"),
        ("1,02", "composite_answer"),
        ("3, 5", "composite_answer"),
        ("x = 4", "composite_answer"),
        ("(1,2)", "composite_answer"),
        ("\\pm 2", "composite_answer"),
        ("1 or 2", "composite_answer"),
        ("\\frac{1}{2}", "not_an_integer"),
        ("2.5", "not_an_integer"),
        ("\\sqrt{2}", "not_an_integer"),
        ("does not exist", "unverifiable_answer"),
        ("\\infty", "unverifiable_answer"),
        ("No solution", "unverifiable_answer"),
        ("", "no_answer"),
        ("  ", "no_answer"),
        (None, "no_answer"),
        ("1000000000001", "huge_answer"),
        ("9" * 5000, "huge_answer"),
        ("-" + "0" * 40 + "7", "-7"),
    ],
)
def test_one_integer_is_an_answer_and_everything_else_has_a_reason(answer: Any, kept: str) -> None:
    found = read({"id": "a", "problem": "What is it?", "answer": answer})
    assert (found["reason"] or found["answer"]) == kept
    assert found["reason"] in ("", *ORDER)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("", "blank"),
        ("{", "not_json"),
        ("[1]", "not_an_object"),
        ({"id": "a", "answer": "1"}, "missing_column"),
        ({"id": "a", "problem": "q"}, "missing_column"),
        ({"id": "a", "problem": "", "answer": "1"}, "no_problem"),
        ({"id": "a", "problem": {"x": 1}, "answer": "1"}, "wrong_type"),
        ({"id": "a", "problem": "q" * 201, "answer": "1"}, "too_long"),
        ({"id": "a", "problem": "\u6c42 x", "answer": "1"}, "other_language"),
        ({"id": "a", "problem": "\u041d\u0430\u0439\u0434\u0438 x", "answer": "1"}, "other_language"),
        ({"id": "a", "problem": "q", "answer": "1", "pad": "x" * 5 * 2**20}, "row_too_large"),
    ],
)
def test_a_row_that_cannot_be_used_is_counted_by_reason(row: Any, reason: str) -> None:
    assert read(row)["reason"] == reason


def test_a_line_of_another_encoding_is_one_bad_row() -> None:
    line = json.dumps({"problem": "caf\u00e9 \u2264 2", "answer": "1"}, ensure_ascii=False)
    assert (
        read_problem({LINE: line.encode().decode("latin-1")}, 0, SOURCE, PART)["problem"]
        == "caf\u00e9 \u2264 2"
    )
    assert read_problem({LINE: line.replace(" \u2264 2", "")}, 0, SOURCE, PART)["reason"] == "not_utf8"


def test_columns_of_the_hub_are_read_as_those_of_the_file() -> None:
    hub = {"prompt": [{"role": "user", "content": "1 + 1?"}], "solution": "2", "answer": None}
    found = read_problem(hub, 3, SOURCE, PART)
    assert (found["id"], found["problem"], found["answer"], found["reason"]) == ("s-3", "1 + 1?", "2", "")


def test_rows_of_another_part_of_a_set_are_no_fault() -> None:
    source = SOURCE.model_copy(update={"where": {"kind": ["good"]}})
    assert read({"problem": "q", "answer": "1", "kind": "bad"}, source)["reason"] == "other_part"
    assert read({"problem": "q", "answer": "1", "kind": "good"}, source)["reason"] == ""
    assert read({"problem": "q", "answer": "1"}, source)["reason"] == "missing_column"
