"""Multiple choice: option order, letters, and texts that must not leak. Invented questions only."""

import json
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from records.verdict import VerdictKind
from tests.verifier.cases import OPEN, STATED
from verifier.answers.extract import extract_letter
from verifier.benchmarks import WrongData, benchmark
from verifier.benchmarks.gpqa_diamond import arrange, letter_histogram, option_order, rearrange
from verifier.graders.grade import grade_answer
from verifier.graders.policy import GradePolicy

CHOICE = GradePolicy(choice=True)
"""Lists, hedges, molecules, articles: no letter is named."""


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Thinking about A and C.\nAnswer: D", "D"),
        ("**Answer: B**", "B"),
        ("Answer: (C)", "C"),
        ("answer: $\\boxed{A}$", "A"),
        ("so \\boxed{B}", "B"),
        ("so \\boxed{\\text{D}}", "D"),
        ("so \\boxed{(C) an acid}", "C"),
        ("<answer>\\boxed{A}</answer>", "A"),
        ("<answer> D </answer>", "D"),
        ("<think>Answer: A</think> Answer: B", "B"),
        ("Answer: A, no, wait. Answer: C", "C"),
        ("**Answer**: B", "B"),
        ("answer: (c).", "C"),
        ("Answer: d\n", "D"),
        ("Answer B is incorrect because it boils. So \\boxed{C}", "C"),
        ("\\boxed{C}. To answer a sceptic: it does.", "C"),
        ("Answer: a ketone, hence \\boxed{C}", "C"),
    ],
)
def test_an_explicit_letter_is_read(text: str, letter: str) -> None:
    assert extract_letter(text).answer == letter


@pytest.mark.parametrize(("letter", "text"), [(letter, text) for letter in STATED for text in STATED[letter]])
def test_formatting_does_not_hide_a_letter(letter: str, text: str) -> None:
    assert extract_letter(text).answer == letter
    assert grade_answer(letter, text, CHOICE).verdict is VerdictKind.CORRECT


@pytest.mark.parametrize("text", OPEN)
def test_a_list_a_hedge_or_a_word_names_no_letter(text: str) -> None:
    for gold in "ABCD":
        verdict = grade_answer(gold, text, CHOICE)
        assert verdict.verdict in (VerdictKind.UNPARSED, VerdictKind.NO_ANSWER)
        assert verdict.extracted is None


def test_a_box_after_an_open_answer_line_decides_and_one_before_does_not() -> None:
    assert extract_letter("Format: 'Answer: A, B, C or D'. So \\boxed{C}").answer == "C"
    assert grade_answer("C", "So \\boxed{C}. Answer: A or B", CHOICE).verdict is VerdictKind.UNPARSED


@pytest.mark.parametrize(
    "piece", ["Answer: ", "answer ( ", "\\boxed{", "option C is ", "Answer: A or B\n", "(", "\ufdfa"]
)
def test_the_time_of_a_letter_does_not_grow_with_repetition(piece: str) -> None:
    start = time.process_time()
    grade_answer("A", piece * (400_000 // len(piece)), CHOICE)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("text", ["", "It must be A.", "A B C D", "<think>Answer: A", "\\boxed{}"])
def test_a_letter_is_never_guessed(text: str) -> None:
    assert extract_letter(text).answer is None
    assert grade_answer("A", text, CHOICE).verdict is VerdictKind.NO_ANSWER


def test_a_box_without_a_letter_is_unparsed() -> None:
    verdict = grade_answer("A", "\\boxed{benzene}", CHOICE)
    assert verdict.verdict is VerdictKind.UNPARSED
    assert verdict.extracted is None


def test_over_four_repeats_the_right_option_is_once_in_each_place() -> None:
    for number in range(50):
        problem = arrange("?", ["right", "x", "y", "z"], id=f"q{number}")
        letters = [rearrange(problem, seed=3, repeat=repeat).answer for repeat in range(4)]
        assert sorted(letters) == list("ABCD")
        assert f"{problem.answer}) right" in problem.prompt


def test_the_order_depends_on_seed_and_question_and_is_near_uniform() -> None:
    golds = Counter(option_order(f"q{number}", seed=1, repeat=0).index(0) for number in range(4000))
    assert all(900 < count < 1100 for count in golds.values())
    assert [option_order("q", seed=s, repeat=0) for s in range(9)] != [
        option_order("q", seed=0, repeat=0)
    ] * 9


def test_the_histogram_counts_missing_letters() -> None:
    assert letter_histogram(["B", "B", "E", None, "ABC"]) == {"A": 0, "B": 2, "C": 0, "D": 0, "none": 3}


def test_the_real_archive_opens_and_its_golds_are_spread(shared_dir: Path) -> None:
    problems = benchmark("gpqa_diamond").load(shared_dir / "data")
    counts = Counter(problem.answer for problem in problems)
    assert len(problems) == 198
    assert min(counts.values()) > 30


def test_errors_never_quote_a_question(tmp_path: Path) -> None:
    secret = "a very secret stem"
    row = {"id": "x", "question": secret, "correct_answer": secret, "incorrect_answers": [secret]}
    with zipfile.ZipFile(tmp_path / "gpqa_diamond.zip", "w") as archive:
        archive.writestr("gpqa_diamond.jsonl", json.dumps(row))
    with pytest.raises(WrongData) as caught:
        benchmark("gpqa_diamond").load(tmp_path)
    assert secret not in str(caught.value)


def test_a_verdict_holds_a_letter_and_no_option_text() -> None:
    verdict = grade_answer("A", "Answer: A because of the secret", CHOICE)
    assert verdict.extracted == "A"
    assert "secret" not in verdict.rule
