"""The table of `make bench`: a value beside its goal, or the reason why there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measures import DECODE, MEASURES, TRL, Measure
from bench.table import row, table


def measure(name: str) -> Measure:
    return next(measure for measure in MEASURES if measure.name.startswith(name))


def test_a_value_is_compared_with_its_goal_in_the_right_direction() -> None:
    decode, cell = measure("engine decode over generate, batch 128"), measure("session cell, median")
    results = {"results": [{"batch": 128, "best_ratio": 3.1}, {"batch": 512, "best_ratio": 2.9}]}
    assert row(decode, results)["reached"]
    assert not row(measure("engine decode over generate, batch 512"), results)["reached"]
    assert row(cell, {"session": {"p50_ms": 0.2}})["reached"]
    assert not row(cell, {"session": {"p50_ms": 0.4}})["reached"]


@pytest.mark.parametrize(
    ("name", "record", "why"),
    [
        ("sandbox goodput over code-judge, no", {"session": {}}, "no peer given"),
        ("update over TRL, ragged", "not raced: TRL is not installed; pip install", "TRL is not installed"),
        ("engine decode", "bench.decode ended with status 1", "status 1"),
    ],
)
def test_what_cannot_be_measured_states_why(name: str, record: dict | str, why: str) -> None:
    found = row(measure(name), record)
    assert found["value"] is None
    assert why in found["why"]
    assert "not measured: " in table([found])[1]


def test_every_program_exists_and_names_are_unique() -> None:
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    assert {DECODE, TRL} < {measure.program for measure in MEASURES}


@pytest.mark.slow
def test_a_program_reports_its_rows_with_versions_and_machine_state(project_root: Path) -> None:
    command = [sys.executable, "-m", "bench", "--quick", "--json", "--only", "scheduler_call"]
    done = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert [entry["name"] for entry in record["measures"]] == ["scheduler call with 512 engines, mean"]
    assert record["measures"][0]["value"] > 0.0
    assert {"python", "torch", "processor"} <= record["versions"].keys()
    assert record["machine"]["cores_of_others"] >= 0.0
