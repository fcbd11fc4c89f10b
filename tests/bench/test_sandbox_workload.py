"""The workload of the bench is seeded, and its expected answers are correct."""

from __future__ import annotations

import ast

from bench.sandbox.race import is_right, measure
from bench.sandbox.workload import KINDS, mix
from records.tool_call import Limits, Status, ToolResult
from sandbox import Sandbox


def test_the_mix_is_the_same_for_the_same_seed_and_holds_every_kind() -> None:
    assert mix(300, loops=True) == mix(300, loops=True)
    assert mix(300, seed=8, loops=True) != mix(300, loops=True)
    assert {program.kind for program in mix(300, loops=True)} == set(KINDS)
    assert "loop" not in {program.kind for program in mix(300, loops=False)}


def test_every_program_of_the_mix_compiles() -> None:
    for program in mix(200, loops=True):
        ast.parse(program.code)


def test_every_answer_is_verified_and_right() -> None:
    programs = mix(60, loops=False)
    with Sandbox(workers=2, niceness=0, decayed_niceness=0) as sandbox:
        score = measure(sandbox, programs, in_flight=16, limits=Limits(cpu_s=10, wall_s=120))
    assert (score.num_wrong, score.num_lost) == (0, 0)
    assert sum(len(seconds) for seconds in score.latency_s.values()) == 60


def test_a_wrong_answer_is_not_counted_as_right() -> None:
    program = mix(1, loops=False)[0]
    assert not is_right(program, ToolResult(id="x", status=Status.OK, stdout="-1"))
    assert not is_right(program, ToolResult(id="x", status=Status.LOST, stdout=program.stdout))
