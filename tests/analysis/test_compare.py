"""Comparison of two runs, and the exit statuses of the command line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from analysis.cli import app
from analysis.comparison.compare import compare_runs, flips, to_markdown
from analysis.inputs.runs import Run
from analysis.inputs.sample_table import graded, read_sample_table
from analysis.tables import sft
from config.model import AnalysisSection
from records.digest import digest
from records.trajectory import Trajectory
from records.trajectory_files import SCHEMA, read_parquet, write_parquet
from records.verdict import Verdict, VerdictKind
from tests.analysis.fake_run import FakeRun, fake_trajectory, republish, sha256

GOOD = (("base", 0.0), ("sft", 0.3), ("rl1", 0.5), ("rl2", 0.6), ("rl3", 0.8))
BAD = (("base", 0.0), ("sft", 0.3), ("rl1", 0.4), ("rl2", 0.4), ("rl3", 0.3))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    made = [
        FakeRun(questions=30, seed=seed, skill=skill, tokens=False, metrics=False, only=("sft", "rl3")).write(
            root / name
        )
        for name, skill, seed in (("good", GOOD, 1), ("bad", BAD, 2))
    ]
    return made[0], made[1]


def test_a_drop_is_a_regression_and_a_rise_is_not(pair: tuple[Path, Path], settings: AnalysisSection) -> None:
    good, bad = (Run.open(path) for path in pair)
    down = compare_runs(good, bad, "rl3", settings, margin=0.02)
    up = compare_runs(bad, good, "rl3", settings, margin=0.02)
    assert down["regression"]
    assert not up["regression"]
    verdicts = {row["benchmark"]: row["verdict"] for row in up["benchmarks"]}
    assert verdicts["procedural-numbers"] == "better"
    assert "newly right" in to_markdown(up)


def test_a_run_against_itself_shows_no_flip(pair: tuple[Path, Path], settings: AnalysisSection) -> None:
    run = Run.open(pair[0])
    result = compare_runs(run, run, "rl3", settings, margin=0.5)
    assert not result["regression"]
    assert result["flips"] == []
    assert {row["value"] for row in result["benchmarks"]} == {0.0}


def test_a_comparison_of_single_questions_is_printed_as_json(tmp_path: Path) -> None:
    runs = [
        FakeRun(questions=1, seed=seed, tokens=False, metrics=False, only=("rl3",)).write(
            tmp_path / str(seed)
        )
        for seed in (1, 2)
    ]
    result = CliRunner().invoke(app, ["compare", *map(str, runs), "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout, parse_constant=pytest.fail)["benchmarks"]
    assert None in [row["se"] for row in rows]


def test_samples_of_controls_and_other_temperatures_count_in_no_flip_or_mean(
    pair: tuple[Path, Path], settings: AnalysisSection, tmp_path: Path
) -> None:
    plain, padded = Run.open(pair[0]), copied(pair[0], tmp_path / "padded")
    folder = padded / "eval" / "rl3"
    rows = read_parquet(folder / "samples.parquet")
    wrong = {name: Verdict(id="", verdict=VerdictKind.WRONG) for name in ("strict", "rstar_compat")}
    cool = [replace(t, T=0.6, verdicts=wrong) for t in rows if t.control == "none"]
    off = [replace(t, verdicts=wrong) if t.control == "tool_off" else t for t in rows]
    summary = json.loads((folder / "summary.json").read_text())
    summary["settings"]["plans"] += [p | {"temperature": 0.6} for p in summary["settings"]["plans"][:1]]
    extra = [
        row | {"temperature": 0.6}
        for row in summary["scores"]
        if row["control"] == "none" and row["questions"]
    ]
    (folder / "summary.json").write_text(json.dumps(summary | {"scores": summary["scores"] + extra}))
    republish(folder, off + cool)
    result = compare_runs(plain, Run.open(padded), "rl3", settings, margin=0.5)
    assert result["flips"] == []
    assert all(row["a"] == row["b"] for row in result["behaviour"])
    reference = yaml.safe_load(Path("results/reference/paper.yaml").read_text())
    grids = [sft.behaviour_grid(run, settings, reference) for run in (plain, Run.open(padded))]
    assert grids[0].groups["this run"] == grids[1].groups["this run"]


def copied(source: Path, to: Path) -> Path:
    shutil.copytree(source, to)
    return to


def broken(rows: list[Trajectory], share: float = 0.3) -> list[Trajectory]:
    """Some of the right answers turned wrong by seed, in both graders; the text stays."""
    chosen = np.random.default_rng(0).random(len(rows)) < share
    return [
        replace(t, verdicts={n: replace(v, verdict=VerdictKind.WRONG) for n, v in t.verdicts.items()})
        if bad
        else t
        for t, bad in zip(rows, chosen, strict=True)
    ]


def command(*arguments: object) -> Any:
    return CliRunner().invoke(
        app,
        ["compare", *map(str, arguments), "--fail-on", "regression", "--set", "analysis.bootstrap_draws=200"],
    )


def refused(*arguments: object) -> str:
    """The one line of a command that ends with status 2."""
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    return line


def test_a_run_compared_with_itself_shows_no_change(pair: tuple[Path, Path]) -> None:
    result = command(pair[0], pair[0])
    assert result.exit_code == 0, result.output
    assert "better" not in result.stdout
    assert "worse" not in result.stdout
    assert "| **" not in result.stdout  # no factor differs


def test_broken_answers_published_again_are_a_regression(pair: tuple[Path, Path], tmp_path: Path) -> None:
    worse = copied(pair[0], tmp_path / "worse")
    folder = worse / "eval" / "rl3"
    republish(folder, broken(read_parquet(folder / "samples.parquet")))
    result = command(pair[0], worse)
    assert result.exit_code == 1, result.output
    assert "| worse |" in result.stdout
    assert re.search(r"flips by the grader: 0 newly right, [1-9]\d+ newly wrong", result.stdout)


def test_broken_answers_in_the_samples_or_the_summary_alone_are_refused(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    for number, keep in enumerate(("summary.json", "samples.parquet")):
        worse = copied(pair[0], tmp_path / str(number))
        folder = worse / "eval" / "rl3"
        republish(folder, broken(read_parquet(folder / "samples.parquet")))
        shutil.copy(pair[0] / "eval" / "rl3" / keep, folder / keep)
        assert "samples.parquet: its sha256" in refused(pair[0], worse)
        summary = json.loads((folder / "summary.json").read_text())
        summary["samples_sha256"] = sha256(folder / "samples.parquet")
        (folder / "summary.json").write_text(json.dumps(summary))
        line = refused(pair[0], worse)
        assert "the outcomes are not those of samples.parquet" in line
        assert "evaluate the checkpoint again" in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows + rows[:3], "3 samples come twice"),
        (lambda rows: rows[:1] + rows[2:], "1 questions of aime24 lack samples"),
        (
            lambda rows: [r for r in rows if r["problem"] != rows[0]["problem"]],
            "are not those of samples.parquet",
        ),
        (lambda rows: [r for r in rows if r["benchmark"] != "math500"], "math500 avg@4 .* has no samples"),
        (
            lambda rows: rows + [rows[0] | {"problem": "new", "sample": i} for i in range(4)],
            "the first is new",
        ),
        (lambda rows: [*rows, rows[0] | {"sample": 9}], "lack samples"),
        (lambda rows: [rows[0] | {"checkpoint": "rl2"}, *rows[1:]], "samples of several checkpoints"),
        (
            lambda rows: [r | {"checkpoint": "rl2"} for r in rows],
            "a score of rl3, but the samples are of rl2",
        ),
        (lambda rows: [*rows, rows[0] | {"T": 0.3}], "which no plan of summary.json asks for"),
        (lambda rows: [], "no sample"),
    ],
)
def test_samples_that_are_not_those_of_the_plan_are_refused(
    pair: tuple[Path, Path], tmp_path: Path, change: Callable[[list[dict[str, Any]]], Any], message: str
) -> None:
    other = copied(pair[0], tmp_path / "other")
    path = other / "eval" / "rl3" / "samples.parquet"
    rows = pq.read_table(path).to_pylist()
    pq.write_table(pa.Table.from_pylist(change(rows), schema=SCHEMA), path)
    summary = json.loads(path.with_name("summary.json").read_text())
    summary["samples_sha256"] = sha256(path)
    path.with_name("summary.json").write_text(json.dumps(summary))
    assert re.search(message, refused(pair[0], other))


def changed(folder: Path, file: str, *keys: str, to: object) -> None:
    record = json.loads((folder / file).read_text())
    inner = record
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to
    (folder / file).write_text(json.dumps(record))
    if file.startswith("checkpoints/"):
        evaluated_as(folder, Path(file).parent.name)


def evaluated_as(folder: Path, checkpoint: str) -> None:
    """Let the summary of a checkpoint name the checkpoint that lies in the run now."""
    manifest = json.loads((folder / "checkpoints" / checkpoint / "manifest.json").read_text())
    path = folder / "eval" / checkpoint / "summary.json"
    summary = json.loads(path.read_text()) | {"checkpoint_digest": digest(manifest["files"])}
    path.write_text(json.dumps(summary))


SUMMARY = "eval/rl3/summary.json"


@pytest.mark.parametrize(
    ("file", "keys", "to", "named"),
    [
        (SUMMARY, ("settings", "rollout", "system"), "full", "rollout.system differs (brief against full)"),
        (
            SUMMARY,
            ("settings", "rollout", "tool", "response_chars"),
            16,
            "rollout.tool.response_chars differs",
        ),
        (SUMMARY, ("settings", "rollout", "tool", "state"), "session", "rollout.tool.state differs"),
        (SUMMARY, ("settings", "sandbox", "cpu_s"), 9.0, "sandbox.cpu_s differs"),
        (SUMMARY, ("settings", "sandbox", "memory_mib"), 64, "sandbox.memory_mib differs"),
        (SUMMARY, ("settings", "eval", "top_p"), 0.9, "eval.top_p differs"),
        (SUMMARY, ("settings", "eval", "max_response"), 64, "eval.max_response differs"),
        (SUMMARY, ("policies",), {"strict": []}, "grading policies differs"),
        (
            "checkpoints/rl3/manifest.json",
            ("files", "chat_template.jinja"),
            "u" * 64,
            "chat template differs",
        ),
        ("data/manifest.json", ("facts", "train"), 1, "data digest differs"),
    ],
)
def test_different_measurement_settings_are_refused_by_name(
    pair: tuple[Path, Path], tmp_path: Path, file: str, keys: tuple[str, ...], to: object, named: str
) -> None:
    other = copied(pair[0], tmp_path / "other")
    changed(other, file, *keys, to=to)
    line = refused(pair[0], other)
    assert "are not comparable: " in line
    assert named in line
    allowed = command(pair[0], other, "--allow-mismatch")
    assert allowed.exit_code == 0
    # Differences come first, sorted by name.
    table = allowed.stdout[allowed.stdout.index("| what was the same") :].splitlines()
    assert table[2].startswith(f"| **{named.split(' differs')[0]}** |")
    assert table[2].endswith("| not comparable |")


def test_another_prompt_of_the_run_configuration_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    runs = [copied(pair[0], tmp_path / name) for name in "ab"]
    for run, system in zip(runs, ("brief", "full"), strict=True):
        record = json.loads((run / "run.json").read_text())
        config = {"rollout": {"system": system}, "sft": {"epochs": len(system)}}
        (run / "run.json").write_text(json.dumps(record | {"config": config}))
    line = refused(*runs)
    assert "rollout.system (run.json) differs (brief against full)" in line
    assert "epochs" not in line
    assert "sft.epochs (run.json)" in command(*runs, "--allow-mismatch").stdout


def test_other_prompt_tokens_without_another_tokenizer_are_refused(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """A prompt may change without any setting of it: another template, another text of the question."""
    other = copied(pair[0], tmp_path / "other")
    folder = other / "eval" / "rl3"
    rows = read_parquet(folder / "samples.parquet")
    republish(folder, [replace(t, ids=[t.ids[0] + 1, *t.ids[1:]]) for t in rows])
    assert "prompts of aime24 differs" in refused(pair[0], other)
    changed(pair[0], "checkpoints/rl3/manifest.json", "files", "tokenizer.json", to="a" * 64)
    changed(other, "checkpoints/rl3/manifest.json", "files", "tokenizer.json", to="b" * 64)
    try:
        result = command(pair[0], other)
    finally:
        record = json.loads((pair[0] / "checkpoints/rl3/manifest.json").read_text())
        del record["files"]["tokenizer.json"]
        (pair[0] / "checkpoints/rl3/manifest.json").write_text(json.dumps(record, indent=1, sort_keys=True))
        evaluated_as(pair[0], "rl3")
    assert result.exit_code == 0, result.output
    assert "| **prompts of aime24** |" in result.stdout


def test_other_golds_of_a_benchmark_are_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    runs = [copied(pair[0], tmp_path / name) for name in "ab"]
    for run, gold in zip(runs, "ab", strict=True):
        summary = json.loads((run / SUMMARY).read_text())
        (run / SUMMARY).write_text(json.dumps(summary | {"benchmarks": {"math500": gold * 64}}))
    assert "questions and golds of math500 differs" in refused(*runs)


def test_an_invalid_margin_is_refused(pair: tuple[Path, Path]) -> None:
    for margin in ("nan", "-0.1", "0", "5"):
        assert "must be a fraction between 0 and 1" in refused(pair[0], pair[0], "--margin", margin)


def test_a_flip_with_equal_text_comes_from_the_grader(tmp_path: Path) -> None:
    made = fake_trajectory("r", "rl3", "b", "p", 0, True, np.random.default_rng(0))
    wrong = replace(made, verdicts={"strict": Verdict(id="", verdict=VerdictKind.WRONG)})
    lost = replace(made, verdicts={"strict": Verdict(id="", verdict=VerdictKind.INFRA_FAILED)})
    other = replace(wrong, ids=[*wrong.ids[:-1], wrong.ids[-1] + 1])
    tables = []
    for name, trajectory in (("made", made), ("wrong", wrong), ("other", other), ("lost", lost)):
        write_parquet([trajectory], tmp_path / name)
        tables.append(graded(read_sample_table(tmp_path / name)))
    assert flips(tables[0], tables[1])[0]["kind"] == "grader"
    (flip,) = flips(tables[0], tables[2])
    assert (flip["kind"], flip["direction"]) == ("model", "newly_wrong")
    assert flips(tables[0], tables[3]) == []  # a sample that the suite lost has not become wrong


def test_exit_status_1_only_when_asked_to_fail(pair: tuple[Path, Path], tmp_path: Path) -> None:
    call = ["compare", str(pair[0]), str(pair[1]), "--set", "analysis.bootstrap_draws=200"]
    assert CliRunner().invoke(app, call).exit_code == 0
    failed = CliRunner().invoke(app, [*call, "--fail-on", "regression", "--out", str(tmp_path), "--json"])
    assert failed.exit_code == 1
    assert json.loads((tmp_path / "comparison.json").read_text())["regression"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "absent", "absent"], "no such run folder"),
        (["compare", "GOOD", "GOOD", "--checkpoint", "rl9"], "no benchmark of checkpoint rl9"),
        (["compare", "GOOD", "GOOD", "--fail-on", "doom"], "the only value is regression"),
        (["entropy", "--run", "GOOD", "--out", "OUT"], "trainer score"),
        (["figures", "--run", "GOOD", "--out", "OUT", "--only", "nothing"], "no such figure"),
        (["tables", "--run", "GOOD", "--out", "OUT", "--sections", "{"], "Invalid JSON"),
        (["report", "--run", "GOOD", "--out", "OUT"], "claims.json: missing"),
        (["tables", "--run", "GOOD", "--out", "OUT", "--set", "analysis.sed=1"], "nearest known key"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    pair: tuple[Path, Path], tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = [str(pair[0]) if a == "GOOD" else str(tmp_path / "out") if a == "OUT" else a for a in arguments]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_verdict_rows_are_printed_as_json(pair: tuple[Path, Path], tmp_path: Path) -> None:
    call = ["claims", "--run", str(pair[0]), "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, [*call, "--set", "analysis.bootstrap_draws=200"])
    assert result.exit_code == 0, result.stderr
    assert {"id", "verdict", "value"} <= set(json.loads(result.stdout)[0])
