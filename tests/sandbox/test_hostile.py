"""Every hostile case ends as its `expected` requires, and the next call runs clean: as this user, and as others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from records.tool_call import Limits, ToolCall
from sandbox import Sandbox
from sandbox.case_check import fault_of_result
from tests.sandbox.conftest import NOBODY, run_as
from tests.sandbox.run_cases import call_of, calls_before, read_cases

CASES = read_cases()


@pytest.mark.hostile
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_ends_as_expected(sandbox: Sandbox, case: dict[str, Any]) -> None:
    sandbox.run_many(calls_before(case))
    result = sandbox.run(call_of(case))
    assert fault_of_result(result, case["expected"]) == "", result
    after = sandbox.run(
        ToolCall(id="after", code="import os\nos.listdir()", limits=Limits(cpu_s=10, wall_s=120))
    )
    assert (after.value, after.stdout) == ("[]", "")


@pytest.mark.hostile
@pytest.mark.slow
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    shared_before = set(os.listdir("/dev/shm"))
    with Sandbox(workers=2, preload=(), tmp_dir=str(tmp_path)) as own:
        pids = [own.started["supervisor"], *own.started["zygotes"]]
        own.run_many(
            call_of(case) for case in CASES if "import numpy" not in case["code"] and "before" not in case
        )
        status = own.status()
        assert status["running"] == status["queued"] == 0
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert os.listdir(tmp_path) == []
    assert set(os.listdir("/dev/shm")) == shared_before


def _run_all(folder: Path, user: int, **settings: Any) -> dict[str, Any]:
    found = run_as(folder, user, "tests.sandbox.run_cases", settings)
    assert found["left"] == []
    return found


@pytest.mark.hostile
@pytest.mark.slow
def test_all_cases_end_as_expected_for_root_with_a_user_id_per_call(open_python: Path) -> None:
    report = _run_all(open_python, 0)
    assert report["faults"] == {}
    assert report["dirty"] == []
    assert "slot_uid" in report["layers"]


@pytest.mark.hostile
@pytest.mark.slow
def test_all_cases_end_as_expected_for_an_ordinary_user(open_python: Path) -> None:
    report = _run_all(open_python, NOBODY)
    assert report["faults"] == {}
    assert report["dirty"] == []
    assert "signal_scope" in report["layers"] or "signal_filter" in report["layers"]
    assert "slot_uid" not in report["layers"]


@pytest.mark.hostile
@pytest.mark.slow
def test_all_cases_end_as_expected_without_signal_scope(open_python: Path) -> None:
    report = _run_all(open_python, NOBODY, disabled_layers=["signal_scope"])
    assert "signal_filter" in report["layers"]
    assert report["dirty"] == []
    # Without a scope the filter refuses every signal, so the code cannot end itself by one either.
    assert set(report["faults"]) <= {"abort", "kill itself", "kill the group", "session that kills itself"}
