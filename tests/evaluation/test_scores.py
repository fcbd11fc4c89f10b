"""From graded samples to score rows: counted samples, excluded samples, the reach of the controls."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from evaluation.scores.score_rows import (
    Slice,
    chance,
    consensus,
    control_scores,
    disagreements,
    outcomes_of,
    score,
    shuffled_golds,
    without_known_issues,
)
from records.problem import Problem
from records.trajectory import CallKind, GradedRollout, Rollout, StopReason, Turn
from records.verdict import Verdict, VerdictKind
from verifier.benchmarks import KnownIssue
from verifier.graders.grade import grade
from verifier.graders.policy import EVAL_GRADERS, GradePolicy, GraderName

ABOUT = Slice(checkpoint="sft", benchmark="b", temperature=1.0)
POLICY = GradePolicy(integer_only=True, graders=EVAL_GRADERS)
MATHS = GradePolicy()


def problem(name: str, answer: str, family: str = "f") -> Problem:
    return Problem(id=name, prompt="", answer=answer, family=family)


def a_sample(
    name: str, sample: int, answer: str | None, gold: str = "4", policy: GradePolicy = POLICY, **changes: Any
) -> GradedRollout:
    """A graded sample; answer None: the infrastructure lost it."""
    text = f"</reason><answer>\\boxed{{{answer}}}</answer>"
    fields: dict[str, Any] = {
        "ids": [1, 2, 3], "mask": [False, True, True], "logprob": [0.0, -1.0, -1.0], "prompt_len": 1,
        "turns": [Turn(text=text, start=1, end=3, call=CallKind.NONE)],
        "stop": StopReason.ABORTED if answer is None else StopReason.ANSWER,
    }  # fmt: skip
    made = Rollout(
        run="r", checkpoint="sft", benchmark="b", problem=name, sample=sample, **(fields | changes)
    )
    return made.graded(reward=None, verdicts=grade(problem(name, gold), made, policy))


def judged(sample: GradedRollout, verdict: Verdict) -> GradedRollout:
    """The sample with another verdict of one grader."""
    return replace(sample, verdicts={**sample.verdicts, verdict.grader: verdict})


def test_lost_samples_are_in_no_outcome() -> None:
    samples = [a_sample("a", 0, "4"), a_sample("a", 1, None), a_sample("a", 2, "5"), a_sample("b", 0, None)]
    assert outcomes_of(samples, GraderName.STRICT) == {"a": [1.0, 0.0]}


def test_a_question_with_one_sample_has_an_average_and_no_pass_rate() -> None:
    (row,) = score({"a": [1.0], "b": [0.0]}, ABOUT)
    assert (row.metric, row.value, row.num_questions, row.num_samples) == ("avg@1", 0.5, 2, 2)
    assert 0.0 <= row.low <= row.value <= row.high <= 1.0
    assert row.rerun_se is None


def test_several_samples_give_average_and_pass_rate() -> None:
    average, passed, always = score({"b": [1.0, 0.0, 0.0, 0.0], "a": [0.0] * 4, "c": [1.0] * 4}, ABOUT)
    assert (average.metric, average.value) == ("avg@4", pytest.approx(5 / 12))
    assert (passed.metric, passed.value) == ("pass@4", pytest.approx(2 / 3))
    assert (always.metric, always.value) == ("pass^4", pytest.approx(1 / 3))
    assert list(average.questions) == ["a", "b", "c"]
    assert average.rerun_se is not None
    assert average.rerun_se > 0
    assert 0.0 <= passed.low <= passed.value <= passed.high <= 1.0


def test_questions_have_equal_weight_with_any_number_of_lost_samples() -> None:
    average, passed, _ = score({"a": [1.0, 1.0, 1.0], "b": [0.0, 0.0]}, ABOUT)
    assert average.value == 0.5
    assert (average.metric, passed.metric) == ("avg@2", "pass@2")


def test_the_vote_counts_answers_and_shares_a_tie() -> None:
    """a: two notations of 4 beat one 5; b: 4 and 5 tie, and the sample that was lost has no vote."""
    samples = [a_sample("a", 0, "4"), a_sample("a", 1, "04"), a_sample("a", 2, "5")]
    samples += [a_sample("b", 0, "4"), a_sample("b", 1, "5"), a_sample("b", 2, None)]
    (row,) = consensus(samples, ABOUT)
    assert (row.metric, row.value) == ("cons@2", pytest.approx((1 + 0.5) / 2))
    assert consensus(samples[:1], ABOUT) == []


def test_an_unparsed_answer_has_no_vote() -> None:
    samples = [a_sample("a", 0, "?"), a_sample("a", 1, "?"), a_sample("a", 2, "4")]
    unread = [
        judged(one, replace(one.verdicts["strict"], verdict=VerdictKind.UNPARSED)) for one in samples[:2]
    ]
    (row,) = consensus([*unread, *samples[2:]], ABOUT)
    assert row.value == 1.0


def test_a_vote_does_not_depend_on_the_order_and_a_right_majority_wins() -> None:
    answers = [("\\frac{8}{2}", "4", "4", "5"), ("45", "45\\%", "0.45", "0.45")]
    for spelled, gold, policy, value in zip(answers, ("4", "0.45"), (POLICY, MATHS), (1.0, 1.0), strict=True):
        for order in itertools.permutations(range(4)):
            made = [a_sample("a", at, spelled[i], gold, policy=policy) for at, i in enumerate(order)]
            (row,) = consensus(made, ABOUT, policy=policy)
            assert row.value == value, (order, [t.verdicts["strict"].verdict for t in made])


def test_wrong_answers_in_two_notations_vote_together_under_the_grader() -> None:
    spelled = ("\\frac12", "0.5", "7", "7", "\\dfrac{1}{2}")
    for order in itertools.permutations(range(5)):
        made = [a_sample("a", at, spelled[i], "7", policy=MATHS) for at, i in enumerate(order)]
        (row,) = consensus(made, ABOUT, policy=MATHS)
        assert row.value == 0.0


def test_the_benchmarks_notion_of_an_answer_does_not_give_a_vote() -> None:
    """An evaluation names the vote itself; verdicts still decide who votes."""
    made = [
        a_sample("a", 0, "what?"),
        a_sample("a", 1, "what?"),
        a_sample("a", 2, "4"),
        a_sample("a", 3, None),
    ]
    (row,) = consensus(made, ABOUT, lambda t: t.verdicts["strict"].extracted, POLICY)
    assert (row.metric, row.value) == ("cons@3", 1.0)


@pytest.mark.parametrize(
    "text", ["{" * 2000, "\\sum_{i=1}^{2000}\\sum_{j=1}^{2000} ij", "1e999999", "9" * 9000, "=" * 900]
)
def test_an_answer_that_cannot_be_read_does_not_end_the_vote(text: str) -> None:
    for policy in (POLICY, MATHS):
        made = [
            a_sample("a", at, text_of, policy=policy) for at, text_of in enumerate(("4", text, text + " "))
        ]
        wrong = Verdict(id="a", verdict=VerdictKind.WRONG, extracted=text)
        # For any verdict of the grader, it asks to vote.
        (row,) = consensus([made[0], *(judged(one, wrong) for one in made[1:])], ABOUT, policy=policy)
        assert 0.0 <= row.value <= 1.0


def test_defective_rows_are_also_left_out() -> None:
    issues = [KnownIssue(problems=("b", "z"), what="wrong key")]
    (row,) = without_known_issues({"a": [1.0], "b": [0.0]}, issues, ABOUT)
    assert (row.metric, row.value, row.num_questions) == ("without_known_issues@1", 1.0, 1)
    assert without_known_issues({"a": [1.0]}, issues, ABOUT) == []


def test_nothing_graded_gives_no_row() -> None:
    assert score({}, ABOUT) == []


def test_permuted_golds_are_a_derangement_within_the_family() -> None:
    problems = [problem(f"{family}{i}", f"{family}{i}", family) for family in "xyz" for i in range(5)]
    shuffled = shuffled_golds(problems, seed=1)
    assert sorted(p.answer for p in shuffled.values()) == sorted(p.answer for p in problems)
    for name, moved in shuffled.items():
        assert moved.answer != name
        assert moved.answer[0] == name[0]
    assert shuffled == shuffled_golds(problems[::-1], seed=1)
    assert shuffled != shuffled_golds(problems, seed=2)


def test_a_problem_alone_in_its_family_is_in_no_permuted_score() -> None:
    """It would keep its own gold, and the control would score like the model."""
    problems = [problem("a", "1"), problem("b", "2"), problem("alone", "7", "other")]
    assert set(shuffled_golds(problems, seed=1)) == {"a", "b"}
    samples = [a_sample("a", 0, "1", "1"), a_sample("b", 0, "2", "2"), a_sample("alone", 0, "7", "7")]
    rows = {(row.control, row.metric): row for row in control_scores(problems, samples, POLICY, ABOUT)}
    permuted = rows["shuffled_golds", "avg@1"]
    assert (permuted.value, permuted.num_questions) == (0.0, 2)
    lone = control_scores(problems[2:], samples[2:], POLICY, ABOUT)
    assert {row.control for row in lone} == {"mute", "none"}


def test_the_controls_need_no_samples_and_detect_a_leaked_key() -> None:
    """Answers that match the permuted golds come from a leaked key: the control shows it."""
    problems = [problem(name, str(i)) for i, name in enumerate("abcd")]
    shuffled = shuffled_golds(problems, ABOUT.seed)
    honest = [a_sample(p.id, 0, p.answer, p.answer) for p in problems]
    cheating = [a_sample(p.id, 0, shuffled[p.id].answer, p.answer) for p in problems]
    for samples, expected in ((honest, 0.0), (cheating, 1.0)):
        rows = {(row.control, row.metric): row for row in control_scores(problems, samples, POLICY, ABOUT)}
        assert rows["shuffled_golds", "avg@1"].value == expected
        assert rows["mute", "avg@1"].value == 0.0
        constant = rows["none", "chance"]
        assert (constant.value, constant.low, constant.high) == (0.25, 0.25, 0.25)


def test_chance_takes_the_best_constant_of_each_family() -> None:
    problems = [problem("a", "1"), problem("b", "1"), problem("c", "2"), problem("d", "9", "other")]
    assert chance(problems) == 0.75


def test_samples_on_which_the_graders_differ_are_listed() -> None:
    samples = [a_sample("a", i, "4") for i in range(2)]
    other = Verdict(id="a", verdict=VerdictKind.WRONG, grader="rstar_compat")
    (only,) = disagreements([samples[0], judged(samples[1], other)])
    assert (only.problem, only.sample) == ("a", 1)
    assert (only.strict, only.rstar_compat, only.extracted) == ("correct", "wrong", "4")
