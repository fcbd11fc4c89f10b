"""`python -m evaluation`: exit status 2 for unreadable input; files of the user are kept."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation.cli import app
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from records.trajectory_row import from_row, to_row
from records.verdict import Verdict, VerdictKind

run = CliRunner()


def test_regrading_lists_the_flips(tmp_path: Path) -> None:
    trajectory = Trajectory(
        run="r", checkpoint="c", benchmark="own", problem="p", sample=0, stop=StopReason.ANSWER,
        turns=[Turn(text="\\boxed{900}", start=0, end=0, call=CallKind.NONE)],
        verdicts={"strict": Verdict(id="p", verdict=VerdictKind.CORRECT)},
    )  # fmt: skip
    samples, golds, out = (tmp_path / name for name in ("samples.jsonl", "golds.jsonl", "out.jsonl"))
    samples.write_text(json.dumps(to_row(trajectory)) + "\n")
    golds.write_text('{"id": "p", "answer": "9"}\n')
    result = run.invoke(app, ["regrade", str(samples), "--golds", str(golds), "--out", str(out), "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [(flip["before"], flip["after"]) for flip in report["flips"]] == [("correct", "wrong")]
    assert report["num_disagreements"] == 1
    assert from_row(json.loads(out.read_text())).verdicts["strict"].verdict is VerdictKind.WRONG


def test_regrading_without_golds_names_the_option(tmp_path: Path) -> None:
    trajectory = Trajectory(run="r", checkpoint="c", benchmark="own", problem="p", sample=0)
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps(to_row(trajectory)) + "\n")
    result = run.invoke(app, ["regrade", str(samples)])
    assert result.exit_code == 2
    assert "--golds" in result.output


def test_regrading_a_missing_or_foreign_file_is_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": 1}\n')
    for path, message in (
        (tmp_path / "none.parquet", "no such file"),
        (other, "row 1 is no sample of this suite"),
    ):
        result = run.invoke(app, ["regrade", str(path)])
        assert result.exit_code == 2
        assert message in result.output


def test_a_file_of_the_user_is_replaced_only_when_asked(tmp_path: Path) -> None:
    rows, golds, out = (tmp_path / name for name in ("verl.jsonl", "golds.jsonl", "out.jsonl"))
    rows.write_text(json.dumps({"input": "2 + 2?", "output": "\\boxed{4}", "gts": "4"}) + "\n")
    out.write_text("mine\n")
    taking = ["import", str(rows), "--harness", "verl", "--benchmark", "own", "--out", str(out)]
    refused = run.invoke(app, taking)
    assert (refused.exit_code, out.read_text()) == (2, "mine\n")
    assert "exists already" in refused.stderr
    assert run.invoke(app, [*taking, "--overwrite"]).exit_code == 0
    samples = out.read_text()
    golds.write_text(json.dumps({"id": json.loads(samples)["problem"], "answer": "4"}) + "\n")
    again = ["regrade", str(out), "--golds", str(golds), "--out", str(out)]
    assert run.invoke(app, again).exit_code == 2
    assert out.read_text() == samples
    assert run.invoke(app, [*again, "--overwrite"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text("\n")
    Path("bytes.jsonl").write_bytes(b"\xff\xfe")
    result = run.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not Path("new.jsonl").exists()
