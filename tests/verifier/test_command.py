"""`python -m verifier grade`: one verdict per line, exit status 2 only for unreadable input."""

import json
from pathlib import Path

from typer.testing import CliRunner

from verifier.__main__ import app

run = CliRunner()


def test_one_answer_is_graded_as_json() -> None:
    result = run.invoke(app, ["grade", "--gold", "41", "--answer", "041", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"] == "correct"


def test_a_case_file_gives_one_line_per_line(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    rows = [
        '{"id": "a", "gold": "3", "pred": "\\\\boxed{3}"}',
        "{broken",
        '{"id": "c", "pred": "3"}',
        "[1]",
        '{"id":"e","gold":"","pred":"3"}',
    ]
    file.write_text("\n".join(rows) + "\n")
    result = run.invoke(app, ["grade", "--cases", str(file), "--json"])
    verdicts = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [verdict["verdict"] for verdict in verdicts] == [
        "correct",
        "unparsed",
        "unparsed",
        "unparsed",
        "unparsed",
    ]
    assert all(verdict["rule"] for verdict in verdicts)


def test_both_graders_give_two_lines() -> None:
    result = run.invoke(app, ["grade", "--gold", "4", "--answer", "400", "--grader", "both", "--json"])
    assert [json.loads(line)["verdict"] for line in result.stdout.splitlines()] == ["wrong", "correct"]


def test_an_unreadable_file_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    for name, message in (("none.jsonl", "none.jsonl"), ("empty.jsonl", "empty.jsonl: holds no cases")):
        result = run.invoke(app, ["grade", "--cases", str(tmp_path / name)])
        assert result.exit_code == 2
        assert message in result.output
