"""Verdicts of responses and trajectories."""

import json
from pathlib import Path

import pytest

from records.problem import Problem
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from records.verdict import VerdictKind, reward_of
from verifier.graders.grade import grade, grade_answer
from verifier.graders.policy import EVAL_GRADERS, RL_POLICY, GradePolicy, GraderName

PROBLEM = Problem(id="p", prompt="?", answer="12")


def _trajectory(*texts: str, stop: StopReason = StopReason.ANSWER) -> Trajectory:
    turns = [Turn(text=text, start=0, end=0, call=CallKind.NONE) for text in texts]
    return Trajectory(run="r", checkpoint="c", benchmark="b", problem="p", sample=0, turns=turns, stop=stop)


def test_rl_pays_for_a_box_in_the_last_turn_only() -> None:
    right = _trajectory("<answer>\\boxed{11}</answer>", "</reason><answer>\\boxed{12}</answer>")
    early = _trajectory("</reason><answer>\\boxed{12}</answer>", "nothing more")
    assert grade(PROBLEM, right, RL_POLICY)["strict"].verdict is VerdictKind.CORRECT
    assert grade(PROBLEM, early, RL_POLICY)["strict"].verdict is VerdictKind.NO_ANSWER


@pytest.mark.parametrize(
    "text_of_turn",
    [
        "Answer: 12",
        "<answer>12",
        "<answer> 12 ",
        r"so \boxed{12",
        r"\boxed 12",
        r"<answer>\boxed{12}</answer>",
    ],
)
def test_the_end_of_turn_token_is_not_part_of_the_answer(text_of_turn: str) -> None:
    for text in (text_of_turn, f"</reason>{text_of_turn}<|im_end|>", f"</reason>{text_of_turn}<|im_end|>\n"):
        assert grade(PROBLEM, _trajectory(text), GradePolicy())["strict"].verdict is VerdictKind.CORRECT, text


def test_a_tool_response_that_holds_the_answer_is_never_read() -> None:
    empty = _trajectory("calling the tool")
    assert grade(PROBLEM, empty, GradePolicy())["strict"].verdict is VerdictKind.NO_ANSWER


def test_a_truncated_rollout_earns_nothing_in_rl_but_is_read_in_evaluation() -> None:
    cut = _trajectory("</reason><answer>\\boxed{12}</answer> and further", stop=StopReason.LENGTH)
    assert reward_of(grade(PROBLEM, cut, RL_POLICY)["strict"].verdict) == 0.0
    assert grade(PROBLEM, cut, GradePolicy())["strict"].verdict is VerdictKind.CORRECT


def test_an_aborted_rollout_has_no_reward() -> None:
    verdict = grade(PROBLEM, _trajectory(stop=StopReason.ABORTED), RL_POLICY)["strict"]
    assert reward_of(verdict.verdict) is None


def test_both_graders_answer_and_may_disagree() -> None:
    verdicts = grade(
        PROBLEM, _trajectory("\\boxed{1200}"), GradePolicy(integer_only=True, graders=EVAL_GRADERS)
    )
    assert verdicts["strict"].verdict is VerdictKind.WRONG
    assert verdicts["rstar_compat"].verdict is VerdictKind.CORRECT


@pytest.mark.parametrize(
    ("gold", "response", "kind"),
    [
        ("", "\\boxed{}", VerdictKind.UNPARSED),
        ("  ", "\\boxed{3}", VerdictKind.UNPARSED),
        ("3", "", VerdictKind.NO_ANSWER),
        ("3", "\\boxed{@@@}", VerdictKind.UNPARSED),
        ("\\begin{weird}", "\\boxed{3}", VerdictKind.UNPARSED),
        ("3", "\\boxed{8^{8^{8^{8}}}}", VerdictKind.TIMEOUT),
        ("3", "x" * 4_000_001, VerdictKind.UNPARSED),
    ],
)
def test_bad_input_gets_a_verdict_that_is_not_correct(gold: str, response: str, kind: VerdictKind) -> None:
    assert grade_answer(gold, response).verdict is kind


def test_guessing_is_flagged_by_the_number_of_boxes() -> None:
    assert "3 boxes" in grade_answer("7", "\\boxed{5} \\boxed{6} \\boxed{7}").rule


@pytest.mark.parametrize(
    ("gold", "answer", "strict", "compat"),
    [
        ("8", "800", False, True),
        ("3\\pi", "9.42", False, True),
        ("[2,5)", "[2,5]", False, True),
        ("63_8", "638", False, False),
        ("4,5,6", "456", False, True),
        ("\\frac{1}{6}", "0.16667", False, True),
        ("19", "19", True, True),
        ("19", "20", False, False),
    ],
)
def test_compat_keeps_the_leniency_of_the_release(gold: str, answer: str, strict: bool, compat: bool) -> None:
    response = f"\\boxed{{{answer}}}"
    assert (grade_answer(gold, response).verdict is VerdictKind.CORRECT) == strict
    loose = grade_answer(gold, response, grader=GraderName.RSTAR_COMPAT)
    assert (loose.verdict is VerdictKind.CORRECT) == compat


def test_all_cases_outside_policies_are_right_and_fast(shared_dir: Path) -> None:
    cases = [json.loads(line) for line in (shared_dir / "cases" / "verifier.jsonl").read_text().splitlines()]
    wrong, slow = [], []
    for case in cases:
        verdict = grade_answer(case["gold"], case["pred"], id=case["id"])
        if not case["policy"] and (verdict.verdict is VerdictKind.CORRECT) != case["right_verdict"]:
            wrong.append((case["id"], verdict.verdict, verdict.rule))
        if verdict.seconds > 2:
            slow.append(case["id"])
    assert not wrong
    assert not slow
