"""IFEval: a passing and a failing response for each of the 25 types, and limits of the reference."""

import time
from pathlib import Path
from typing import Any

import pytest

from records.problem import Problem
from records.problem_params import Instruction, Instructions
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from records.verdict import Verdict, VerdictKind
from tests.verifier.cases import CASES, ENGLISH, PROMPT
from verifier.benchmarks import benchmark
from verifier.ifeval.checks import (
    check_response,
    four_numbers,
    grade_instructions,
    grade_response,
)

pytest.importorskip(
    "if_verifiable", reason="the checks of IFEval are an extra: pip install if-verifiable==0.1.2"
)


def test_the_cases_cover_all_25_types_of_the_data(shared_dir: Path) -> None:
    problems = benchmark("ifeval").load(shared_dir / "data")
    asked = [problem.params for problem in problems]
    types = {item.id for one in asked if isinstance(one, Instructions) for item in one.items}
    assert types == {case[0] for case in CASES}
    assert (len(problems), len(types)) == (541, 25)


@pytest.mark.parametrize(("id", "kwargs", "passing", "failing"), CASES, ids=[case[0] for case in CASES])
def test_each_type_passes_and_fails(id: str, kwargs: dict[str, Any], passing: str, failing: str) -> None:
    instructions = [Instruction(id=id, kwargs=kwargs)]
    assert check_response(PROMPT, instructions, passing).strict == (True,)
    assert check_response(PROMPT, instructions, failing).strict == (False,)


def test_the_loose_rule_forgives_a_first_line() -> None:
    found = check_response(
        PROMPT, [Instruction(id="punctuation:no_comma", kwargs={})], "Sure, here it is:\nThey flow."
    )
    assert (found.strict, found.loose) == ((False,), (True,))


def test_thinking_and_end_tokens_are_cut_off_before_checking() -> None:
    instructions = [Instruction(id="startend:end_checker", kwargs={"end_phrase": "Done."})]
    assert check_response(PROMPT, instructions, "<think>a, b</think>They flow. Done.<|im_end|>").strict == (
        True,
    )


def test_an_empty_response_follows_none_of_its_instructions() -> None:
    instructions = [Instruction(id="punctuation:no_comma", kwargs={})] * 2
    assert check_response(PROMPT, instructions, "<think>never ends").strict == (False, False)


@pytest.mark.parametrize(("text", "followed"), [("#a #b #c", True), ("#a only", False)])
def test_a_symbol_is_counted_where_the_reference_draws_a_random_letter(text: str, followed: bool) -> None:
    kwargs = {"letter": "#", "let_frequency": 3, "let_relation": "at least"}
    assert check_response(
        PROMPT, [Instruction(id="keywords:letter_frequency", kwargs=kwargs)], text
    ).strict == (followed,)


def test_language_detection_repeats() -> None:
    instructions = [Instruction(id="language:response_language", kwargs={"language": "en"})]
    assert len({check_response(PROMPT, instructions, "Hello world").strict for _ in range(20)}) == 1


def test_an_unknown_type_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        check_response(PROMPT, [Instruction(id="nonsense:type", kwargs={})], "text")


def _sample(text: str, stop: StopReason = StopReason.ANSWER) -> Trajectory:
    turns = [Turn(text=text, start=0, end=0, call=CallKind.NONE)]
    return Trajectory(
        run="r", checkpoint="c", benchmark="ifeval", problem="p", sample=0, turns=turns, stop=stop
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "size"), [("<<", 120_000), ("<<", 1_000_000), ("A. ", 300_000), ("[", 120_000)]
)
def test_a_response_that_the_reference_cannot_check_in_time_is_a_timeout(piece: str, size: int) -> None:
    asked = [Instruction(id=id, kwargs=kwargs) for id, kwargs, _, _ in CASES]
    grade_response(PROMPT, asked, ENGLISH * 100)  # starts the worker
    start = time.monotonic()
    found = grade_response(PROMPT, asked, piece * (size // len(piece)), id="p")
    assert time.monotonic() - start < 10.0
    assert {verdict.verdict for verdict in found.values()} == {VerdictKind.TIMEOUT}
    assert found["strict"].extracted == "0" * len(asked)


def test_a_response_nested_too_deep_is_unparsed() -> None:
    found = grade_response(PROMPT, [Instruction(id="detectable_format:json_format", kwargs={})], "[" * 1900)
    assert {verdict.verdict for verdict in found.values()} == {VerdictKind.UNPARSED}
    endless = grade_response(PROMPT, [Instruction(id="punctuation:no_comma", kwargs={})], "a" * 4_000_001)
    assert endless["strict"].verdict is VerdictKind.UNPARSED


@pytest.mark.parametrize("length", [500, 20_000])
def test_short_and_long_responses_are_checked_alike(length: int) -> None:
    """One runs in this process, the other in a worker."""
    text = ("A river has a bank. " * 1000)[:length]
    asked = [Instruction(id="keywords:existence", kwargs={"keywords": ["bank"]}),
             Instruction(id="keywords:forbidden_words", kwargs={"forbidden_words": ["river"]})]  # fmt: skip
    found = grade_response(PROMPT, asked, text)
    assert (found["strict"].extracted, found["loose"].extracted) == ("10", "10")
    assert found["strict"].verdict is VerdictKind.WRONG


def test_a_prompt_without_instructions_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(ValueError, match="no instructions"):
        grade_response(PROMPT, [], "anything")


def test_responses_stay_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    asked = [Instruction(id="language:response_language", kwargs={"language": "de"})]
    grade_response(PROMPT, asked, "#### 1234 ####")
    assert "1234" not in caplog.text


def test_four_numbers_of_no_graded_sample_are_unknown() -> None:
    lost = Verdict(id="a", verdict=VerdictKind.INFRA_FAILED)
    assert set(four_numbers([{"strict": lost, "loose": lost}]).values()) == {None}


def test_four_numbers_come_from_the_verdicts() -> None:
    types = ("punctuation:no_comma", "detectable_format:title")
    asked = Instructions(items=tuple(Instruction(id=id, kwargs={}) for id in types))
    problem = Problem(id="p", prompt=PROMPT, answer="", params=asked)
    both = grade_instructions(problem, _sample("<<T>> fine"))
    half = grade_instructions(problem, _sample("no title"))
    lost = grade_instructions(problem, _sample("", StopReason.ABORTED))
    assert (both["strict"].verdict, half["strict"].extracted) == (VerdictKind.CORRECT, "10")
    numbers = four_numbers([both, half, lost])
    assert numbers == {
        "prompt_strict": 0.5,
        "instruction_strict": 0.75,
        "prompt_loose": 0.5,
        "instruction_loose": 0.75,
    }
