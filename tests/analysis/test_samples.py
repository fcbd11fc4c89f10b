"""Samples files and token tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.runs import BadRun, Run
from analysis.samples import behaviour, outcomes, read_samples, read_tokens, sampled_only
from analysis.statistics import avg_at_k
from sandbox.records import Status
from tests.analysis.fake_run import fake_trajectory
from trainer.types import IdsSource


def test_outcomes_of_the_samples_file_give_the_stored_score(run: Run) -> None:
    rows = [r for r in read_samples(run.samples_files()["rl3"]) if r["benchmark"] == "procedural-numbers"]
    stored = next(s for s in run.scores() if s.checkpoint == "rl3" and s.benchmark == "procedural-numbers")
    assert avg_at_k(outcomes(rows)) == pytest.approx(stored.value)
    assert outcomes(rows) == dict(stored.questions)


def test_failed_calls_and_tokens_after_the_first_error_are_counted() -> None:
    rng = np.random.default_rng(0)
    row = fake_trajectory("r", "rl3", "b", "p", 0, True, rng).to_json()
    row["turns"][0]["result"]["status"] = Status.TIMEOUT
    facts = behaviour([row]).iloc[0]
    assert facts["num_calls"] == 1
    assert facts["num_failed_calls"] == 1
    assert facts["num_tokens_after_error"] == len(row["ids"]) - row["turns"][1]["start"]


def test_a_row_whose_ids_were_guessed_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    row = fake_trajectory("r", "rl3", "b", "p", 0, True, rng).to_json()
    row["ids_source"] = IdsSource.RETOKENISED
    with pytest.raises(BadRun, match="re-tokenised"):
        sampled_only([row], tmp_path)


def test_a_token_table_without_a_column_names_it(tmp_path: Path, run: Run) -> None:
    frame = pd.read_parquet(run.token_files()["rl3"]).drop(columns="entropy")
    frame.to_parquet(tmp_path / "tokens.parquet")
    with pytest.raises(BadRun, match="no column entropy"):
        read_tokens(tmp_path / "tokens.parquet")


def test_a_file_that_is_no_parquet_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    path.write_text("not parquet")
    with pytest.raises(BadRun, match="not a Parquet file"):
        read_samples(path)
