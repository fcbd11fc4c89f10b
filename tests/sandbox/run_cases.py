"""Runs the hostile cases as the user and with the interpreter of this process; prints the faults as JSON.

This is a program, because the tests start it as other users and with another interpreter.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from records.tool_call import Limits, ToolCall
from sandbox import Sandbox
from sandbox.case_check import fault_of_result

ENDS_BY_WALL_TIME = ("long sleep", "thread that never ends", "session that writes on the result channel")


def read_cases() -> list[dict[str, Any]]:
    """All cases of the file beside this one."""
    text = (Path(__file__).parent / "hostile.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def call_of(case: dict[str, Any]) -> ToolCall:
    """The call of a case. Only cases about wall time get a short wall limit, so that a busy machine fails none."""
    cpu_s = float(case.get("timeout", 10.0))
    wall_s = cpu_s if case["id"] in ENDS_BY_WALL_TIME else 120.0
    limits = Limits(cpu_s=cpu_s, wall_s=wall_s)
    session = case["id"] if "before" in case else None
    return ToolCall(
        id=case["id"], code=case["code"], stdin=case.get("stdin", ""), limits=limits, session=session
    )


def calls_before(case: dict[str, Any]) -> list[ToolCall]:
    """The earlier cells of a case that is the last cell of a session: its `before`."""
    call = call_of(case)
    cells = case.get("before", ())
    return [replace(call, id=f"{call.id}#{number}", code=code) for number, code in enumerate(cells)]


def main(settings: dict[str, Any]) -> None:
    """Run all cases at once, then one more call in every seat."""
    cases = read_cases()
    with Sandbox(niceness=0, decayed_niceness=0, **settings) as sandbox:
        for case in cases:
            sandbox.run_many(calls_before(case))
        futures = [sandbox.submit(call_of(case)) for case in cases]
        results = [future.result() for future in futures]
        faults = {
            case["id"]: fault
            for case, result in zip(cases, results, strict=True)
            if (fault := fault_of_result(result, case["expected"]))
        }
        after = sandbox.run_many(
            ToolCall(id=f"after-{k}", code="import os\nos.listdir()", limits=Limits(cpu_s=10, wall_s=120))
            for k in range(16)
        )
        layers = [state["layer"] for state in sandbox.started["states"] if state["used"]]
    dirty = [result.value for result in after if result.value != "[]"]
    print(json.dumps({"faults": faults, "dirty": dirty, "layers": layers}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
