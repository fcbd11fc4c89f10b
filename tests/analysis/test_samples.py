"""Samples files and token tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.inputs.runs import Run
from analysis.inputs.sample_table import graded, read_sample_table
from analysis.inputs.samples import read_scored, read_tokens
from records.errors import ConfigError
from records.tool_call import Status
from records.trajectory import CallKind, StopReason, Trajectory
from records.trajectory_files import SCHEMA, write_parquet
from records.verdict import Verdict, VerdictKind
from tests.analysis.fake_run import FakeRun, fake_trajectory, publish_tokens


def write(folder: Path, *trajectories: Trajectory) -> Path:
    path = folder / "samples.parquet"
    write_parquet(trajectories, path)
    return path


def trajectory(sample: int = 0, **changes: object) -> Trajectory:
    made = fake_trajectory("r", "rl3", "b", "p", sample, True, np.random.default_rng(0))
    return replace(made, **changes)


def test_turns_calls_and_failed_calls_are_counted(tmp_path: Path) -> None:
    made = trajectory()
    (called, answered) = made.turns
    assert called.result is not None
    failed = replace(called, result=replace(called.result, status=Status.TIMEOUT))
    unread = replace(called, call=CallKind.PARSE_ERROR, result=None)
    not_run = replace(called, result=None)
    made = replace(made, turns=[failed, unread, not_run, called, answered])
    facts = read_sample_table(write(tmp_path, made)).iloc[0]
    assert [facts[f"num_{name}"] for name in ("turns", "calls", "failed_calls")] == [5, 3, 2]
    assert facts["response_len"] == len(made.ids) - made.prompt_len


def test_a_lost_call_is_not_a_failed_call(tmp_path: Path) -> None:
    made = trajectory()
    result = made.turns[0].result
    assert result is not None
    lost = replace(made.turns[0], result=replace(result, status=Status.LOST))
    made = replace(made, turns=[lost, made.turns[1]])
    facts = read_sample_table(write(tmp_path, made)).iloc[0]
    assert (facts["num_calls"], facts["num_failed_calls"]) == (0, 0)


def test_a_lost_sample_is_in_no_mean(tmp_path: Path) -> None:
    lost = Verdict(id="p/1", verdict=VerdictKind.INFRA_FAILED)
    table = read_sample_table(
        write(
            tmp_path,
            trajectory(),
            trajectory(1, verdicts={"strict": lost}),
            trajectory(2, stop=StopReason.ABORTED),
        )
    )
    assert graded(table)["sample"].tolist() == [0]


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("stop", lambda old: "given_up", "stop 'given_up' is unknown"),
        ("control", lambda old: "Tool_Off", "control 'Tool_Off' is unknown"),
        ("ids_source", lambda old: "", "ids_source '' is unknown"),
        ("verdicts", lambda old: {"strict": {"verdict": "Correct"}}, "verdict 'Correct' is unknown"),
        ("verdicts", lambda old: {"strict": {"verdict": None}}, "no strict verdict"),
        ("turns", lambda old: [old[0] | {"call": "run"}, old[1]], "call 'run' is unknown"),
        (
            "turns",
            lambda old: [old[0] | {"result": old[0]["result"] | {"status": "fine"}}, old[1]],
            "status 'fine' is unknown",
        ),
        ("schema_version", lambda old: 9, "schema_version 9"),
        ("T", lambda old: float("nan"), "temperature"),
        ("prompt_len", lambda old: 10_000, "longer than its trajectory"),
        ("problem", lambda old: None, "column problem is empty"),
    ],
)
def test_an_unknown_word_or_impossible_value_is_refused_by_name(
    tmp_path: Path, column: str, change: Callable[[Any], Any], message: str
) -> None:
    """An open set has no default: a verdict of another spelling was neither right nor an error."""
    rows = pq.read_table(write(tmp_path, trajectory(), trajectory(1))).to_pylist()
    rows[1][column] = change(rows[1][column])
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "samples.parquet")
    with pytest.raises(ConfigError, match=message):
        read_sample_table(tmp_path / "samples.parquet")


def test_a_duplicated_sample_is_refused(tmp_path: Path) -> None:
    rows = pq.read_table(write(tmp_path, trajectory())).to_pylist()
    pq.write_table(pa.Table.from_pylist(rows * 2, schema=SCHEMA), tmp_path / "samples.parquet")
    with pytest.raises(ConfigError, match="1 samples come twice, the first is b p sample 0"):
        read_sample_table(tmp_path / "samples.parquet")


def test_a_token_table_without_a_column_names_it(tmp_path: Path, run: Run) -> None:
    frame = pd.read_parquet(run.token_files()["rl3"]).drop(columns="entropy")
    frame.to_parquet(tmp_path / "tokens.parquet")
    with pytest.raises(ConfigError, match="no column entropy"):
        read_tokens(tmp_path / "tokens.parquet")


def test_a_file_that_is_not_parquet_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    path.write_text("not parquet")
    with pytest.raises(ConfigError, match="not a Parquet file"):
        read_sample_table(path)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("entropy", float("nan"), "an entropy that is no number"),
        ("entropy", -0.5, "a negative entropy"),
        ("entropy", 6.5, "an entropy above 5.991 nats"),
        ("logprob", 0.5, "a log-prob that is none"),
        ("logprob", float("-inf"), "a log-prob that is none"),
        ("rank", -1, "a rank below 0"),
        ("segment", "dream", "an unknown segment"),
        ("after_tool", "fine", "an unknown after_tool"),
        ("index", 10_000, "a gap before it"),
        ("distance", 3.0, "a distance that is not its place"),
        ("checkpoint", "rl9", "tokens of several checkpoints"),
        ("text", None, "an empty field"),
    ],
)
def test_an_impossible_token_is_refused_by_name(
    tmp_path: Path, run: Run, column: str, value: Any, message: str
) -> None:
    frame = pd.read_parquet(run.token_files()["rl3"]).astype({column: object})
    frame.loc[70, column] = value
    frame.to_parquet(tmp_path / "tokens.parquet")
    with pytest.raises(ConfigError, match=message):
        read_tokens(tmp_path / "tokens.parquet", vocab_size=400)


def test_duplicated_tokens_are_refused(tmp_path: Path, run: Run) -> None:
    frame = pd.read_parquet(run.token_files()["rl3"])
    pd.concat([frame, frame.head(50)]).to_parquet(tmp_path / "tokens.parquet")
    with pytest.raises(ConfigError, match="50 tokens have a position that comes twice"):
        read_tokens(tmp_path / "tokens.parquet")


def test_tokens_match_their_manifest_and_the_samples(tmp_path: Path) -> None:
    root = FakeRun(questions=2, k=1, metrics=False, only=("sft", "rl3")).write(tmp_path / "run")
    read_scored(Run.open(root), "rl3")
    shutil.copy(root / "score/sft/tokens.parquet", root / "score/rl3/tokens.parquet")
    with pytest.raises(ConfigError, match=r"rl3/tokens\.parquet: its sha256 .* is not the"):
        read_scored(Run.open(root), "rl3")
    publish_tokens(root, "rl3")
    with pytest.raises(ConfigError, match="tokens of checkpoint sft, not of rl3"):
        read_scored(Run.open(root), "rl3")
    manifest = root / "score/sft/manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"data": "0"}))
    with pytest.raises(ConfigError, match="was made from other samples"):
        read_scored(Run.open(root), "sft")
