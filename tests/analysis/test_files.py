"""Files at the border: a file that cannot be read or written is one line with path and remedy."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.cli import app
from analysis.inputs.reference import read_reference
from analysis.inputs.runs import Run
from analysis.report.bench_tables import sandbox_bench, scheduler_bench
from analysis.report.verify import judge, verify
from bench.publish import publish
from records.arm_record import ArmRecord
from records.errors import ConfigError
from records.evaluation import EvaluationSummary
from records.files import read_json, read_jsonl, require_digest, write_text
from tests.analysis.conftest import REFERENCE
from tests.analysis.fake_benches import SANDBOX_BENCH, SCHEDULER_BENCH
from tests.analysis.fake_run import FakeRun, put, score_row, summary_json


@contextmanager
def small_disk(num_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    write_text(path, "old")
    with (
        small_disk(100),
        pytest.raises(OSError, match=r"index\.html"),
    ):
        write_text(path, "new" * 100)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_figures_name_the_place_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    call = ["figures", "--run", str(run.root), "--only", "scheduler", "--out"]
    blocked = CliRunner().invoke(app, [*call, str(tmp_path / "file" / "figures")])
    with small_disk(1000):
        full = CliRunner().invoke(app, [*call, str(tmp_path / "figures")])
    for result in (blocked, full):
        assert result.exit_code == 2
        (line,) = result.stderr.strip().splitlines()
        assert str(tmp_path) in line
        assert "run again, finished work is kept" in line


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"\x00\xff\xfe", "is no text"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1}{"a": 1}', "not JSON"),
        (b"[1]", "holds no JSON object"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_file_without_a_json_object_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        read_json(path)


def test_a_journal_needs_objects_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "rl1.jsonl"
    for text, message in (
        ("", "is empty"),
        ("3\n", "line 1: holds no JSON object"),
        ('{"a": Infinity}\n', "line 1"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_jsonl(path)
    assert read_jsonl(tmp_path / "absent.jsonl") == []
    with pytest.raises(ConfigError, match="missing; run the step"):
        read_json(tmp_path / "absent.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_json(tmp_path)


def test_a_missing_or_wrong_digest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    path.write_text("x")
    for expected, message in (
        (None, "names no sha256 of samples"),
        ("0" * 64, "its sha256 2d711642b726 is not"),
    ):
        with pytest.raises(ConfigError, match=message):
            require_digest(path, expected, tmp_path / "summary.json", "evaluate again")
    path.unlink()
    with pytest.raises(ConfigError, match=r"missing, though summary\.json names it"):
        require_digest(path, "0" * 64, tmp_path / "summary.json", "evaluate again")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": 0.9}, "does not follow from the outcomes beside it"),
        ({"num_samples": 9}, "does not follow from the outcomes beside it"),
        ({"metric": "avg@3"}, "does not follow from the outcomes beside it"),
        ({"value": "0.5"}, "value: Input should be a valid number"),
        ({"control": "none "}, "control: Input should be"),
        ({"grader": "lenient"}, "grader: Input should be"),
        ({"questions": {"q": []}}, "questions"),
        ({"questions": {"q": [7.0, 0.0]}}, "questions"),
        ({"temperature": -1.0}, "temperature"),
    ],
)
def test_an_impossible_score_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    row = score_row("rl3", "b", {"q": [1.0, 0.0]}, k=2)
    for rows, expected in (([row | changes], message), ([row, row], "comes twice")):
        put(tmp_path / "summary.json", summary_json(rows))
        with pytest.raises(ConfigError, match=expected):
            EvaluationSummary.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "bench", "changes", "message"),
    [
        ("sandbox", SANDBOX_BENCH, {"calls_per_s": []}, "calls_per_s"),
        ("sandbox", SANDBOX_BENCH, {"calls_per_s": [{"in_flight": 1, "ours": -3.0}]}, "ours"),
        ("scheduler", SCHEDULER_BENCH, {"seeds": []}, "seeds"),
        ("scheduler", SCHEDULER_BENCH, {"runs": SCHEDULER_BENCH["runs"] * 2}, "comes twice"),
        ("scheduler", SCHEDULER_BENCH, {"summary": SCHEDULER_BENCH["summary"][:1]}, "name other policies"),
    ],
)
def test_an_impossible_bench_record_is_refused(
    tmp_path: Path, name: str, bench: dict[str, object], changes: dict[str, object], message: str
) -> None:
    """A duplicated simulation would count as two workload seeds."""
    publish(tmp_path, name, bench | changes, 1.0)
    with pytest.raises(ConfigError, match=message):
        (sandbox_bench if name == "sandbox" else scheduler_bench)(Run(tmp_path))


def test_an_arm_record_matches_its_file_name_and_holds_numbers(tmp_path: Path) -> None:
    path = tmp_path / "grpo_g-main-0.json"
    point = {"step": 1, "rollouts": 1, "sampled_tokens": 1, "seconds": 1.0}
    record = {
        "arm": "grpo_g",
        "origin": "main",
        "seed": 0,
        "text": "",
        "endpoints": {"accuracy": 0.5},
        "curve": [point],
    }
    put(path, record)
    assert ArmRecord.load(path).endpoints == {"accuracy": 0.5}
    for changes, message in (
        ({"seed": 1}, "is the record of grpo_g-main-1"),
        ({"endpoints": {"accuracy": "high"}}, "endpoints.accuracy"),
        ({"curve": [point | {"step": 2}, point]}, "do not rise"),
        ({"curve": [point | {"accuracy": 3.0}]}, "accuracy"),
        ({"curve": [point | {"seconds": "long"}]}, "seconds"),
    ):
        put(path, record | changes)
        with pytest.raises(ConfigError, match=message):
            ArmRecord.load(path)


def test_an_empty_list_of_checks_does_not_open_the_gate(tmp_path: Path) -> None:
    path = tmp_path / "verify.json"
    for text in ("{}", '{"checks": []}', '{"checks": [{"name": "x", "detail": "y"}]}', "[]"):
        path.write_text(text)
        with pytest.raises(ConfigError):
            judge(path)
        result = CliRunner().invoke(app, ["gate", str(path), "--out", str(tmp_path / "gate.json")])
        assert result.exit_code == 2
        assert not (tmp_path / "gate.json").exists()


@pytest.mark.parametrize("text", ["", "][", "table1: 3\n", "\x00", "a: [1"])
def test_published_numbers_that_cannot_be_read_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "paper.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"paper\.yaml"):
        read_reference(tmp_path)


def test_published_numbers_cut_before_the_last_part_are_refused(tmp_path: Path) -> None:
    text = (REFERENCE / "paper.yaml").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for count in range(0, lines.index("conflicts:\n"), 9):
        (tmp_path / "paper.yaml").write_text("".join(lines[:count]))
        with pytest.raises(ConfigError, match=r"paper\.yaml"):
            read_reference(tmp_path)


def test_journals_are_those_of_the_finished_stage_and_miss_no_step(tmp_path: Path) -> None:
    root = FakeRun(questions=2, k=1, tokens=False).write(tmp_path / "run")
    path = root / "metrics" / "rl1.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]))
    with pytest.raises(ConfigError, match=r"rl1\.jsonl: its sha256"):
        Run.open(root).metrics()
    (root / "checkpoints" / "rl1" / "manifest.json").unlink()  # an unfinished stage has none
    path.write_text("".join(lines[:3] + lines[4:]))
    with pytest.raises(ConfigError, match="step 4 is missing"):
        Run.open(root).metrics()
    path.write_text("".join(lines[:-2]))
    with pytest.raises(ConfigError, match=r"rl1\.timing\.jsonl: has other steps"):
        Run.open(root).timing()


def test_two_folders_with_one_evaluation_are_refused(tmp_path: Path) -> None:
    root = FakeRun(questions=2, k=1, tokens=False, metrics=False, only=("sft",)).write(tmp_path / "run")
    (root / "eval" / "sft").rename(root / "eval" / "a")
    (root / "eval" / "b").mkdir()
    (root / "eval" / "b" / "summary.json").write_bytes((root / "eval" / "a" / "summary.json").read_bytes())
    with pytest.raises(ConfigError, match="move one of the two folders away"):
        Run.open(root).scores()


@pytest.mark.parametrize("text", ["[]", "5", "null", '{"files": 5, "facts": []}'])
def test_verify_reports_an_impossible_check_as_failed(text: str, tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "rl1.jsonl").write_text('{"step": 1}\n')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").write_text(text)
    checks = {check.name: check.ok for check in verify(tmp_path)}
    assert not checks["digests"]
    assert not checks["duplicates"]


@pytest.mark.parametrize("arms", [5, ["grpo_g"], {"grpo_g": "x"}, {"names": ["grpo_g"], "seeds": 1}])
def test_a_run_json_with_invalid_arms_is_one_line(arms: object, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"config": {"arms": arms}}))
    with pytest.raises(ConfigError, match=r"config\.arms is no table"):
        Run(tmp_path).arm_files()
