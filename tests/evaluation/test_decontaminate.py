"""The command `decontaminate`."""

import json
from pathlib import Path

from typer.testing import CliRunner

from evaluation.cli import app

LONG = (
    "A gardener plants tulips in seven rows so that each row holds three more tulips than the row before it and the "
    "last row holds twenty five of them"
)


def test_the_command_exits_with_1_on_a_find_and_with_2_on_a_bad_file(tmp_path: Path) -> None:
    problem = {"id": "p", "prompt": LONG, "answer": "4"}
    (tmp_path / "dev.jsonl").write_text(json.dumps(problem) + "\n")
    (tmp_path / "train.jsonl").write_text(json.dumps({"problem": LONG}) + "\n")
    (tmp_path / "bad.jsonl").write_text(json.dumps({"nothing": 1}) + "\n")
    common = ["--benchmark", "procedural-dev", "--data", str(tmp_path)]
    found = CliRunner().invoke(app, ["decontaminate", "--train", str(tmp_path / "train.jsonl"), *common])
    assert found.exit_code == 1
    assert "tulips" in found.output
    assert (
        CliRunner().invoke(app, ["decontaminate", "--train", str(tmp_path / "bad.jsonl"), *common]).exit_code
        == 2
    )
