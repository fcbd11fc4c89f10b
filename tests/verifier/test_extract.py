"""Places where an answer is found, and places that are not searched."""

import pytest

from verifier.answers.extract import extract
from verifier.graders.policy import Require
from verifier.turn import without_reasoning


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"first \boxed{8}, no: \boxed{9}", "9"),
        (r"\fbox{31}", "31"),
        (r"\boxed {17}", "17"),
        (r"\boxed 23 done", "23"),
        (r"\boxed{\frac{1}{\sqrt{3}}}", r"\frac{1}{\sqrt{3}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        ("so <answer> 64 </answer> is it", "64"),
        ("Final Answer: **88**", "88"),
        ("Answer: a+b = 20+31 = 51", "a+b = 20+31 = 51"),
        ("**Answer:**\n\n$77$", "$77$"),
        (r"<reason>\boxed{3}</reason> so \boxed{4}", "4"),
        (r"\boxed{3}</reason> so \boxed{4}", "4"),
        (r"it is \boxed{19", "19"),
    ],
)
def test_the_answer_is_found(text: str, answer: str) -> None:
    assert extract(text).answer == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "There are 6 cats and 9 dogs.",
        r"I had 6, but \boxed{}",
        r"<think>perhaps \boxed{6}",
        r"\boxed{6}</think>",
        r"\boxed{3} then \boxed{   }",
        "answer 6",
    ],
)
def test_no_answer_is_invented(text: str) -> None:
    assert extract(text).answer is None


def test_several_boxes_are_counted() -> None:
    assert extract(r"\boxed{1} \boxed{2} \fbox{3}").num_boxes == 3


def test_an_unclosed_box_of_a_truncated_response_is_not_read() -> None:
    assert extract(r"so it is \boxed{12", truncated=True).answer is None
    assert extract(r"so it is \boxed{12}, and", truncated=True).answer == "12"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"<answer>\boxed{5}</answer>", "5"),
        (r"work</reason><answer>The answer is \boxed{5}.</answer>", "5"),
        (r"\boxed{5}", None),
        (r"<answer>5</answer>", None),
        (r"<answer>\boxed{5}", None),
        (r"<answer>\boxed{5</answer>", None),
        (r"<reason><answer>\boxed{5}</answer></reason>", None),
        (r"<answer>\boxed{5}</answer> then <answer>6</answer>", None),
    ],
)
def test_rl_rewards_only_a_box_inside_a_closed_answer_block(text: str, answer: str | None) -> None:
    assert extract(text, require=Require.ANSWER_BOX).answer == answer


def test_thinking_between_answers_is_cut_out() -> None:
    assert without_reasoning("a<think>b<think>c</think>d</think>e") == "ae"


def test_a_megabyte_of_braces_is_scanned_once() -> None:
    assert extract("{" * 500_000 + r"\boxed{7}" + "}" * 500_000).answer == "7"
