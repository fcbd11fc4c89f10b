"""Every hostile or awkward case ends as wanted, and the call after it runs clean."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandbox.client import Sandbox
from sandbox.expectation import fault_of_result
from sandbox.records import Limits, ToolCall

CASES = [json.loads(line) for line in (Path(__file__).parent / "hostile.jsonl").read_text().splitlines()]


def _call(case: dict[str, object]) -> ToolCall:
    seconds = case.get("timeout")
    limits = (
        Limits(cpu_s=10, wall_s=120)
        if seconds is None
        else Limits(cpu_s=float(str(seconds)), wall_s=float(str(seconds)))
    )
    if case["id"] not in ("long sleep", "thread that never ends"):
        limits = Limits(cpu_s=limits.cpu_s, wall_s=120)
    return ToolCall(
        id=str(case["id"]), code=str(case["code"]), stdin=str(case.get("stdin", "")), limits=limits
    )


@pytest.mark.hostile
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_ends_as_wanted(sandbox: Sandbox, case: dict[str, object]) -> None:
    result = sandbox.run(_call(case))
    assert fault_of_result(result, case["want"]) == "", result  # type: ignore[arg-type]
    after = sandbox.run(
        ToolCall(id="after", code="import os\nos.listdir()", limits=Limits(cpu_s=10, wall_s=120))
    )
    assert (after.value, after.stdout) == ("[]", "")


@pytest.mark.hostile
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    shared_before = set(os.listdir("/dev/shm"))
    with Sandbox(workers=2, preload=(), tmp_dir=str(tmp_path)) as own:
        pids = [own.started["supervisor"], *own.started["zygotes"]]
        own.run_many(_call(case) for case in CASES if "import numpy" not in str(case["code"]))
        status = own.status()
        assert status["running"] == status["queued"] == 0
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert os.listdir(tmp_path) == []
    assert set(os.listdir("/dev/shm")) == shared_before
