"""Comparing two runs, and the command line's exit statuses."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from analysis.cli import app
from analysis.compare import compare_runs, flips, to_markdown
from analysis.entropy import Settings
from analysis.runs import BadRun, Run
from analysis.tables import sft
from tests.analysis.fake_run import FakeRun, fake_trajectory

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


def test_a_drop_is_a_regression_and_a_rise_is_none(pair: tuple[Path, Path], settings: Settings) -> None:
    good, bad = (Run.open(path) for path in pair)
    down = compare_runs(good, bad, "rl3", settings, margin=0.02)
    up = compare_runs(bad, good, "rl3", settings, margin=0.02)
    assert down["regression"]
    assert not up["regression"]
    verdicts = {row["benchmark"]: row["verdict"] for row in up["benchmarks"]}
    assert verdicts["procedural-numbers"] == "better"
    assert "newly right" in to_markdown(up)


def test_a_run_against_itself_shows_no_flip(pair: tuple[Path, Path], settings: Settings) -> None:
    run = Run.open(pair[0])
    result = compare_runs(run, run, "rl3", settings, margin=0.5)
    assert not result["regression"]
    assert result["flips"] == []
    assert {row["value"] for row in result["benchmarks"]} == {0.0}


def test_samples_of_controls_and_other_temperatures_are_in_no_flip_and_in_no_mean(
    pair: tuple[Path, Path], settings: Settings, tmp_path: Path
) -> None:
    """A sample without the tool took the place of the real one of the same number."""
    plain, padded = Run.open(pair[0]), tmp_path / "padded"
    shutil.copytree(pair[0], padded)
    path = padded / "eval" / "rl3" / "samples.parquet"
    rows = pd.read_parquet(path)
    verdicts = [{"strict": {**v["strict"], "verdict": "wrong"}} for v in rows["verdicts"]]
    wrong = rows.assign(verdicts=pd.Series(verdicts, index=rows.index))
    extra = [wrong.assign(control="tool_off"), wrong.assign(T=0.6)]
    pd.concat([rows, *extra], ignore_index=True).to_parquet(path)
    result = compare_runs(plain, Run.open(padded), "rl3", settings, margin=0.5)
    assert result["flips"] == []
    assert all(row["a"] == row["b"] for row in result["behaviour"])
    reference = yaml.safe_load(Path("results/reference/paper.yaml").read_text())
    grids = [sft.behaviour_grid(run, settings, reference) for run in (plain, Run.open(padded))]
    assert grids[0].groups["this run"] == grids[1].groups["this run"]


def test_a_flip_of_the_same_text_is_the_graders() -> None:
    rng = np.random.default_rng(0)
    row = fake_trajectory("r", "rl3", "b", "p", 0, True, rng).to_json()
    other = copy.deepcopy(row)
    other["verdicts"]["strict"]["verdict"] = "wrong"
    key = ("b", "p", 0)
    assert flips({key: row}, {key: other})[0]["kind"] == "grader"
    other["ids"] = [*other["ids"][:-1], other["ids"][-1] + 1]
    (flip,) = flips({key: row}, {key: other})
    assert (flip["kind"], flip["direction"]) == ("model", "newly_wrong")


def test_other_data_make_runs_incomparable_unless_allowed(
    pair: tuple[Path, Path], settings: Settings, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(pair[0], other)
    (other / "data" / "manifest.json").write_text('{"schema": 1, "digest": "e"}')
    good, changed = Run.open(pair[0]), Run.open(other)
    with pytest.raises(BadRun, match="data digest differs"):
        compare_runs(good, changed, "rl3", settings, margin=0.02)
    result = compare_runs(good, changed, "rl3", settings, margin=0.02, allow_mismatch=True)
    assert result["mismatches"] == ["data digest differs"]


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
        (["compare", "GOOD", "GOOD", "--fail-on", "doom"], "the one thing to fail on"),
        (["entropy", "--run", "GOOD", "--out", "OUT"], "trainer score"),
        (["figures", "--run", "GOOD", "--out", "OUT", "--only", "nothing"], "no such figure"),
        (["tables", "--run", "GOOD", "--out", "OUT", "--sections", "{"], "not JSON"),
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
