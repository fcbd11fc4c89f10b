"""The command line: one verdict per line, exit status 2 only for unreadable input."""

import importlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.__main__ import app as evaluation_app
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from verifier.__main__ import app

run = CliRunner()


def test_one_answer_is_graded_as_json() -> None:
    result = run.invoke(app, ["grade", "--gold", "41", "--answer", "041", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"] == "correct"


def test_a_case_file_gives_a_line_for_each_line_even_for_broken_ones(tmp_path: Path) -> None:
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
    result = run.invoke(app, ["grade", "--cases", str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2
    assert "none.jsonl" in result.output


def test_regrading_lists_the_flips(tmp_path: Path) -> None:
    from records.verdict import Verdict, VerdictKind

    trajectory = Trajectory(
        run="r", checkpoint="c", benchmark="own", problem="p", sample=0, stop=StopReason.ANSWER
    )
    trajectory.turns = [Turn(text="\\boxed{900}", start=0, end=0, call=CallKind.NONE)]
    trajectory.verdicts = {"strict": Verdict(id="p", verdict=VerdictKind.CORRECT)}
    samples, golds, out = (tmp_path / name for name in ("samples.jsonl", "golds.jsonl", "out.jsonl"))
    samples.write_text(json.dumps(trajectory.to_json()) + "\n")
    golds.write_text('{"id": "p", "answer": "9"}\n')
    result = run.invoke(
        evaluation_app, ["regrade", str(samples), "--golds", str(golds), "--out", str(out), "--json"]
    )
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [(flip["before"], flip["after"]) for flip in report["flips"]] == [("correct", "wrong")]
    assert report["num_disagreements"] == 1
    assert Trajectory.from_json(json.loads(out.read_text())).verdicts["strict"].verdict is VerdictKind.WRONG


def test_regrading_without_golds_says_what_to_pass(tmp_path: Path) -> None:
    trajectory = Trajectory(run="r", checkpoint="c", benchmark="own", problem="p", sample=0)
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps(trajectory.to_json()) + "\n")
    result = run.invoke(evaluation_app, ["regrade", str(samples)])
    assert result.exit_code == 2
    assert "--golds" in result.output


def test_regrading_a_file_that_is_not_there_or_not_ours_is_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": 1}\n')
    for path, told in ((tmp_path / "none.parquet", "no such file"), (other, "row 1 is no sample of ours")):
        result = run.invoke(evaluation_app, ["regrade", str(path)])
        assert result.exit_code == 2
        assert told in result.output


def test_a_file_of_the_user_is_replaced_only_when_asked(tmp_path: Path) -> None:
    rows, golds, out = (tmp_path / name for name in ("verl.jsonl", "golds.jsonl", "out.jsonl"))
    rows.write_text(json.dumps({"input": "2 + 2?", "output": "\\boxed{4}", "gts": "4"}) + "\n")
    out.write_text("mine\n")
    taking = ["import", str(rows), "--harness", "verl", "--benchmark", "own", "--out", str(out)]
    refused = run.invoke(evaluation_app, taking)
    assert (refused.exit_code, out.read_text()) == (2, "mine\n")
    assert "exists already" in refused.stderr
    assert run.invoke(evaluation_app, [*taking, "--overwrite"]).exit_code == 0
    samples = out.read_text()
    golds.write_text(json.dumps({"id": json.loads(samples)["problem"], "answer": "4"}) + "\n")
    again = ["regrade", str(out), "--golds", str(golds), "--out", str(out)]
    assert run.invoke(evaluation_app, again).exit_code == 2
    assert out.read_text() == samples
    assert run.invoke(evaluation_app, [*again, "--overwrite"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["grade", "--cases", "empty.jsonl"], "empty.jsonl: holds no cases"),
        (["regrade", "empty.jsonl"], "empty.jsonl: holds no samples"),
        (["regrade", "empty.jsonl", "--data", "nowhere"], "--data nowhere is not a folder"),
        (
            ["import", "empty.jsonl", "--harness", "verl", "--benchmark", "own", "--out", "new.jsonl"],
            "holds no samples",
        ),
        (["regrade", "bytes.jsonl"], "bytes.jsonl: is not UTF-8 text"),
        (["controls", "--data", "."], "holds the file of no benchmark"),
        (["controls", "--data", "nowhere"], "--data nowhere is not a folder"),
        (
            ["decontaminate", "--train", "empty.jsonl", "--benchmark", "aime24"],
            "empty.jsonl: holds no problems",
        ),
        (
            ["decontaminate", "--train", "empty.jsonl", "--benchmark", "aime24", "--data", "nowhere"],
            "is not a folder",
        ),
    ],
)
def test_nothing_to_read_is_not_a_clean_result(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text("\n")
    Path("bytes.jsonl").write_bytes(b"\xff\xfe")
    result = run.invoke(app if arguments[0] == "grade" else evaluation_app, arguments)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert not Path("new.jsonl").exists()


@pytest.mark.parametrize(
    ("owner", "command", "kept"),
    [
        (
            "trainer.__main__",
            ["score", "--checkpoint", "c", "--samples", "s.parquet", "--out", "mine"],
            "mine/manifest.json",
        ),
        ("bench.schedule", ["--quick", "--out", "mine.json"], "mine.json"),
    ],
)
def test_tables_of_the_trainer_are_kept_too(
    owner: str, command: list[str], kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(kept).parent.mkdir(exist_ok=True)
    Path(kept).write_text("mine\n")
    result = run.invoke(importlib.import_module(owner).app, command)
    assert result.exit_code == 2, result.output
    assert f"{kept}: exists already" in result.stderr
    assert Path(kept).read_text() == "mine\n"
