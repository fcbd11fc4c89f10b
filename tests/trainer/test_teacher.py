import contextlib
import io
import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace

import pytest

from config.model import SftNoiseSection
from config.resolve import resolve
from records.tool_call import Status, ToolCall, ToolError, ToolResult
from trainer.problems.family import ProblemError
from trainer.problems.splits import LevelMix, generate_splits
from trainer.sft.teacher import TeacherError, TeacherRow, write_transcripts

TOOL = "execute_python_code_with_standard_io"
CLEAN = SftNoiseSection(**SftNoiseSection.ABSENT)
TINY = resolve().sft.noise


def run_one(call: ToolCall) -> ToolResult:
    """Fake sandbox: runs code of the suite's templates in this process."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(call.code, "<call>", "exec"), {})  # noqa: S102
    except Exception as error:
        failure = ToolError(type=type(error).__name__, message=str(error), traceback=traceback.format_exc())
        return ToolResult(id=call.id, status=Status.ERROR, stdout=out.getvalue(), error=failure, wall_s=0.1)
    return ToolResult(id=call.id, status=Status.OK, stdout=out.getvalue(), wall_s=0.1)


class FakeSandbox:
    """Runs batches, newest first, and records their sizes."""

    def __init__(self, spoil: Callable[[ToolCall, int], Status | None] = lambda call, wave: None) -> None:
        self.waves: list[int] = []
        self.spoil = spoil

    def __call__(self, calls: list[ToolCall]) -> list[ToolResult]:
        self.waves.append(len(calls))
        results = []
        for call in reversed(calls):
            status = self.spoil(call, len(self.waves))
            results.append(ToolResult(id=call.id, status=status) if status else run_one(call))
        return results


def problems(num: int, mix: LevelMix | None = None):
    return generate_splits(seed=1, num_sft=num, num_train=0, num_dev=0, num_test=0, min_ring=0, mix=mix).sft


def teach(num: int = 200, noise: SftNoiseSection = CLEAN, seed: int = 0, **kwargs) -> list[TeacherRow]:
    sandbox = kwargs.pop("sandbox", FakeSandbox())
    given = kwargs.pop("given", None) or problems(num)
    return write_transcripts(given, run_many=sandbox, noise=noise, seed=seed, tool_name=TOOL, **kwargs)


@pytest.fixture(scope="module")
def noisy() -> list[TeacherRow]:
    return teach(4000, TINY.model_copy(update={"verbose": 0.1}))


def test_without_noise_every_row_is_right_in_one_call():
    rows = teach()
    assert all(row.correct and row.computed and row.num_calls == 1 and row.num_errors == 0 for row in rows)


def test_a_tool_turn_and_a_final_turn_have_the_agreed_form():
    row = teach(1)[0]
    tool_turn, final = row.turns
    found = re.fullmatch(r"[^<]+</reason>\n<tool_call>\n(.*)\n</tool_call>", tool_turn.text)
    assert found
    assert tool_turn.call is not None
    assert json.loads(found[1]) == {"name": TOOL, "arguments": {"code": tool_turn.call.code, "input": ""}}
    found = re.fullmatch(r"[^<]+</reason>\n<answer>\\boxed\{(\d+)\}</answer>", final.text)
    assert found
    assert found[1] == row.answer


def test_no_row_shows_a_true_answer_that_it_did_not_compute(noisy):
    assert not any(row.leaks_answer for row in noisy)
    for row in noisy:
        printed = [t.result.stdout.strip() for t in row.turns if t.result and t.result.status is Status.OK]
        assert row.computed == (row.answer in printed[-1:])
        if row.correct:
            assert row.problem.answer in printed


def test_a_leak_is_seen_when_there_is_one():
    row = next(r for r in teach(30) if r.problem.level == 1)
    assert replace(row, turns=row.turns[1:]).leaks_answer


def test_guesses_are_never_right(noisy):
    guesses = [row for row in noisy if not row.computed]
    assert guesses
    assert not any(row.correct for row in guesses)


def test_planted_flaws_have_their_rates(noisy):
    def share(rows, what) -> float:
        return sum(map(what, rows)) / len(rows)

    with_tool = [r for r in noisy if r.num_calls]
    assert share(noisy, lambda r: r.num_calls == 0) == pytest.approx(0.25, abs=0.03)
    first = [r.turns[0].result for r in with_tool]
    assert share(first, lambda r: r.status is not Status.OK) == pytest.approx(0.36, abs=0.03)
    failed = [r for r in with_tool if r.turns[0].result.status is not Status.OK]
    assert share(failed, lambda r: r.gave_up) == pytest.approx(0.03, abs=0.02)
    retried = [r for r in failed if r.num_calls > 1 and not r.two_calls]
    assert share(retried, lambda r: r.turns[1].result.status is not Status.OK) == pytest.approx(
        0.15, abs=0.04
    )
    assert share(noisy, lambda r: r.num_answers > 1) == pytest.approx(0.20, abs=0.03)
    assert share(noisy, lambda r: r.turns[-1].text.count("<answer>") == r.num_answers) == 1
    room = [r for r in with_tool if not r.two_calls and r.num_errors < 2 and r.computed]
    assert share(room, lambda r: r.verified) == pytest.approx(0.15, abs=0.03)
    composed = [r for r in with_tool if r.problem.level == 3]
    assert share(composed, lambda r: r.two_calls) == pytest.approx(0.35, abs=0.05)
    for level, rate in ((1, 0.40), (2, 0.65), (3, 0.75), (4, 0.20)):
        of_level = [r for r in with_tool if r.problem.level == level and not r.two_calls]
        assert share(of_level, lambda r: r.wrong_formula) == pytest.approx(rate, abs=0.08)
    texts = [t.text for r in noisy for t in r.turns]
    wordy = share(texts, lambda t: t.startswith(("Let me read the question", "I want to be careful")))
    assert wordy == pytest.approx(0.1, abs=0.02)


def test_wrong_formulas_are_wrong_and_right_ones_right(noisy):
    right = [r for r in noisy if r.computed and not r.wrong_formula]
    wrong = [r for r in noisy if r.computed and r.wrong_formula]
    assert all(r.correct for r in right)
    assert sum(r.correct for r in wrong) < 0.05 * len(wrong)


def test_calls_run_in_a_few_batches():
    sandbox = FakeSandbox()
    rows = teach(300, TINY, sandbox=sandbox)
    assert len(sandbox.waves) <= 3
    assert sum(sandbox.waves) == sum(row.num_calls for row in rows)
    assert max(row.num_calls for row in rows) <= 3


def test_rows_come_in_the_order_of_the_problems():
    given = problems(50)
    assert [row.problem for row in teach(given=given, noise=TINY)] == list(given)


def test_the_same_seed_writes_the_same_rows_and_another_seed_others():
    def texts(seed: int) -> list[list[str]]:
        return [[t.text for t in row.turns] for row in teach(60, TINY, seed=seed)]

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)


def test_a_row_does_not_depend_on_the_other_problems():
    given = problems(40)
    alone = [teach(given=[p], noise=TINY)[0] for p in given]
    assert alone == teach(given=given, noise=TINY)


def test_rows_do_not_depend_on_the_clock(noisy):
    assert all(t.result.wall_s == 0.0 for row in noisy for t in row.turns if t.result)


def test_a_long_program_is_written_at_most_twice(noisy):
    assert max(row.num_calls for row in noisy if row.problem.level == 4) == 2
    assert max(row.num_calls for row in noisy) == 3


def test_nothing_here_needs_torch(project_root):
    code = "import sys, trainer.problems, trainer.sft.teacher; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=project_root, check=False).returncode == 0


def test_two_calls_carry_the_printed_value_into_the_second():
    rows = teach(
        60,
        CLEAN.model_copy(update={"two_calls": 1.0}),
        given=problems(60, LevelMix(level_1=0, level_2=0, level_3=1, long=0)),
    )
    assert all(row.correct and row.two_calls and row.num_calls == 2 for row in rows)
    for row in rows:
        first = row.turns[0].result
        second = row.turns[1].call
        assert first is not None
        assert second is not None
        assert f"print({first.stdout.strip()} * B + " in second.code


def test_lost_calls_run_again():
    sandbox = FakeSandbox(
        lambda call, wave: Status.LOST if wave == 1 and call.id[-12] in "02468ace" else None
    )
    assert all(row.correct for row in teach(60, sandbox=sandbox))
    assert len(sandbox.waves) == 2


def test_a_sandbox_that_keeps_losing_calls_is_an_error_not_a_row():
    with pytest.raises(TeacherError, match="sandbox doctor"):
        teach(5, sandbox=FakeSandbox(lambda call, wave: Status.LOST))


def test_a_timeout_of_right_code_is_an_error_to_recover_from():
    sandbox = FakeSandbox(lambda call, wave: Status.TIMEOUT if wave == 1 else None)
    rows = teach(20, sandbox=sandbox)
    assert all(row.correct and row.num_calls == 2 and row.num_errors == 1 for row in rows)


def test_one_call_is_too_few():
    with pytest.raises(ProblemError, match="max_calls is 1"):
        teach(1, max_calls=1)
