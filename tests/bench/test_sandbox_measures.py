"""The measures of the bench count correctly; their times are not tested."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from bench.sandbox import burst, cells, kills, offered, race, soak, starvation
from bench.sandbox.__main__ import app
from bench.sandbox.command import QUICK, SECTIONS, is_valid, sections_of
from bench.sandbox.workload import Program
from records.tool_call import Status, ToolResult

# Each test starts its own sandboxes, which is too slow for every save.
pytestmark = pytest.mark.slow


def test_every_call_of_a_burst_ends_well_and_once() -> None:
    record = burst.burst(size=60, workers=1, slots=4)
    assert (record["ok"], record["rejected"], record["lost"], record["other"]) == (60, 0, 0, 0)
    assert record["answered_twice"] == 0
    assert record["descriptors_after"] <= record["descriptors_before"]


def test_refused_calls_are_counted_and_succeed_later() -> None:
    record = burst.refused_burst(size=60, workers=1, slots=2, queue_limit=5)
    assert record["first"]["rejected"] > 0
    assert record["ok_plus_rejected"] == 60
    assert record["ok_after_retries"] == 60


def test_a_wrong_output_is_not_counted_as_ok() -> None:
    right = ToolResult(id="a", status=Status.OK, stdout="a\n")
    wrong = ToolResult(id="b", status=Status.OK, stdout="a\n")
    assert burst.count([right, wrong, ToolResult(id="c", status=Status.LOST)]) == {
        "ok": 1,
        "rejected": 0,
        "lost": 1,
        "other": 1,
    }


def test_a_soak_leaves_no_descriptor_zombie_or_file() -> None:
    record = soak.soak(size=60, workers=1, samples=3)
    assert record["faults"] == 0
    growth = record["growth"]
    assert [growth[key] for key in ("descriptors", "zombies", "shared_memory_files", "temporary_files")] == [
        0,
        0,
        0,
        0,
    ]


@pytest.mark.kill
def test_a_killed_process_of_the_sandbox_loses_and_doubles_no_call() -> None:
    for victim, row in kills.kills(rounds=1, workers=1).items():
        assert (row["missing"], row["doubled"]) == (0, 0), victim
        assert set(row["statuses"]) <= {"ok", "lost"}, victim
        assert sum(row["statuses"].values()) == kills.LOAD, victim
        assert row["next_call"] == {"ok": 1}, victim


def test_a_bare_cell_gives_the_value_of_a_sandbox_cell() -> None:
    with cells._bare_process(has_value=True) as link:
        assert len(cells._bare_ms(link, 3)) == 3


def test_answers_and_tool_calls_arrive_as_planned() -> None:
    import random

    plan = starvation._plan(2, 5.0, random.Random(1))
    proofs = [arrival for arrival in plan if not arrival[1]]
    assert len(proofs) == 2 * starvation.BATCH
    assert (
        sum("process_time" in code for _, _, code in proofs) == 2 * starvation.BATCH * starvation.SLOW_SHARE
    )
    assert [at for at, _, _ in plan] == sorted(at for at, _, _ in plan)


def test_cores_for_the_load_of_the_paper_need_a_load_that_is_fast_enough() -> None:
    rows = [{"load": 0.5, "mean_ms": 900.0}]
    assert offered.cores_needed(100.0, rows) == {"burst": 750.0}


@pytest.mark.parametrize(
    ("status", "stdout", "counts"),
    [
        (Status.OK, "7", (0, 0, 0)),
        (Status.OK, "8", (1, 0, 0)),
        (Status.TIMEOUT, "", (0, 1, 0)),
        (Status.LOST, "7", (0, 0, 1)),
    ],
)
def test_wrong_late_and_lost_are_counted_separately(
    status: Status, stdout: str, counts: tuple[int, int, int]
) -> None:
    score = race.Score(0.0)
    program = Program(kind="print", code="print(7)", stdout="7")
    right = race._count(score, program, ToolResult(id="x", status=status, stdout=stdout))
    assert (score.num_wrong, score.num_late, score.num_lost) == counts
    assert right == (counts == (0, 0, 0))


def test_a_loop_is_right_only_as_a_timeout() -> None:
    loop = Program(kind="loop", code="while True: pass")
    assert race.is_right(loop, ToolResult(id="x", status=Status.TIMEOUT))
    assert not race.is_right(loop, ToolResult(id="x", status=Status.OK))


def test_a_record_with_a_lost_call_is_not_valid() -> None:
    entry = {"wrong": 0, "lost": 0}
    assert is_valid({"rounds": [entry]})
    assert not is_valid({"rounds": [{**entry, "lost": 1}]})
    assert not is_valid({"rounds": [], "kills": {"supervisor": {"missing": 1, "doubled": 0}}})
    assert not is_valid({"rounds": [], "soak": {"faults": 1}})


def test_the_short_sections_run_unless_others_are_named() -> None:
    assert sections_of([], quick=True) == QUICK
    assert sections_of(["all"], quick=False) == SECTIONS
    assert not {"burst", "soak"} & set(sections_of([], quick=False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "nonsense"], "sections are race"),
        (["--against", "other=http://x"], "give code-judge=http://HOST:PORT"),
        (["--against", "code-judge"], "give code-judge=http://HOST:PORT"),
    ],
)
def test_a_wrong_option_ends_in_one_line_and_status_2(options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
