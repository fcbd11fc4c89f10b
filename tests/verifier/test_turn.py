"""The parts of a turn: reasoning, call or answer; one reading for training, evaluation and BFCL, in linear time."""

from __future__ import annotations

import json
import random
import time

import pytest

from records.problem import Problem
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from records.verdict import VerdictKind
from trainer.rollout.chat import parse_turn, parse_user_call
from trainer.selection.roc import p_format
from verifier.answers.extract import extract, extract_letter, without_end_marks
from verifier.bfcl.calls import NoCalls, decode
from verifier.bfcl.episodes import safe_calls
from verifier.graders.grade import grade
from verifier.graders.policy import RL_POLICY, GradePolicy
from verifier.turn import MAX_DIGITS, MAX_NESTING, CallUnread, read_turn

BOX = "<answer>\\boxed{4}</answer>"


def call(code: str = "print(1)", name: str = "run") -> str:
    body = json.dumps({"name": name, "arguments": {"code": code, "input": ""}})
    return f"<tool_call>\n{body}\n</tool_call>"


def verdict(text: str, policy: GradePolicy = RL_POLICY) -> VerdictKind:
    turn = Turn(text=text, start=0, end=1, call=CallKind.NONE)
    trajectory = Trajectory(
        run="", checkpoint="", benchmark="", problem="p", sample=0, turns=[turn], stop=StopReason.ANSWER
    )
    (found,) = grade(Problem(id="p", prompt="", answer="4"), trajectory, policy).values()
    return found.verdict


# --- calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "print('</tool_call>')",
        'print("<tool_call>{}</tool_call>")',
        "print('</reason>')",
        "print('<reason>')  # <think>",
        "print('<answer>\\\\boxed{5}</answer>')",
        "s = '}}\\n</tool_call>\\n'",
        'print("\\"</tool_call>")',
        "print('<tool_response>')",
    ],
)
def test_a_tag_inside_the_code_of_a_call_means_nothing(code: str) -> None:
    turn = parse_turn(f"so</reason>\n{call(code)}<|im_end|>", "run")
    assert (turn.call, turn.code, turn.num_extra_calls) == (CallKind.EXECUTED, code, 0)
    assert decode(call(code)) == [{"run": {"code": code, "input": ""}}]
    assert extract(f"so</reason>\n{call(code)}").answer is None


@pytest.mark.parametrize(
    "reasoning",
    [
        call("rehearsed"),
        f"I could write {call('rehearsed')} and {call('again')}",
        f"an {BOX} comes last, {call('x</reason>')}",
        "first <tool_call> then",
        '<tool_call>{"name": "run"',
        "<reason>",
        f"<reason>more {call('rehearsed')}</reason> and",
    ],
)
def test_a_call_rehearsed_in_the_reasoning_is_not_run(reasoning: str) -> None:
    assert parse_turn(f"{reasoning}</reason>\n{BOX}", "run").call is CallKind.NONE
    assert verdict(f"{reasoning}</reason>\n{BOX}") is VerdictKind.CORRECT
    turn = parse_turn(f"{reasoning}</reason>\n{call('real')}", "run")
    assert (turn.call, turn.code, turn.num_extra_calls) == (CallKind.EXECUTED, "real", 0)


@pytest.mark.parametrize(
    "text",
    [
        f"No <tool_call> is needed.\n{BOX}",
        f"No <tool_call></tool_call> is needed.\n{BOX}",
        f"A call stands between <tool_call> and </tool_call>.\n{BOX}",
        f"</tool_call>{BOX}",
        f"{BOX}\nI did not use <tool_call>.",
        f"I would write <tool_call>{{...}}</tool_call>. {BOX}",
        f'The form is <tool_call>\n{{"name": <function name>, "arguments": <object>}}\n</tool_call>. {BOX}',
        f"No <tool_call> here, {BOX} and no </tool_call> there.",
        f"<answer>I could have run {call()}: \\boxed{{4}}</answer>",
        f"The tool printed <tool_response>{call()}</tool_response>, so {BOX}",
        f'Not <tool_call>{{"name": "run"}} again. {BOX}',
    ],
)
def test_a_tag_mentioned_in_prose_leaves_the_answer_to_be_graded(text: str) -> None:
    assert parse_turn(f"so</reason>\n{text}", "run").call is CallKind.NONE
    assert verdict(f"so</reason>\n{text}") is VerdictKind.CORRECT
    with pytest.raises(NoCalls):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [
        f"I write <tool_call> first:\n{call('real')}",
        f"Between <tool_call> and </tool_call>:\n{call('real')}",
        f"the <answer> comes later\n{call('real')}",
        f"{BOX}\n{call('real')}",
    ],
)
def test_a_readable_call_counts_beside_a_mention_or_an_answer(text: str) -> None:
    turn = parse_turn(f"so</reason>\n{text}", "run")
    assert (turn.call, turn.code, turn.num_extra_calls) == (CallKind.EXECUTED, "real", 0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<tool_call>print(1)</tool_call>", "not JSON"),
        ("<tool_call>\n```python\nprint(1)\n```\n</tool_call>", "not JSON"),
        ("<tool_call></tool_call>", "not JSON"),
        ("<tool_call>{'name': 'run'}</tool_call>", "not JSON"),
        ('<tool_call>{"name": "run", "arguments": {"code": "print("a")"}}</tool_call>', "not JSON"),
        (call().removesuffix("</tool_call>"), "</tool_call> is missing"),
        ('<tool_call>{"name": "run', "</tool_call> is missing"),
    ],
)
def test_a_malformed_call_gets_a_message_if_the_turn_gives_no_answer(text: str, error: str) -> None:
    turn = parse_turn(f"so</reason>\n{text}", "run")
    assert (turn.call, error in turn.error) == (CallKind.PARSE_ERROR, True)


def test_a_turn_that_never_closes_its_reasoning_neither_calls_nor_answers() -> None:
    assert parse_turn(call(), "run").call is CallKind.NONE
    assert parse_turn(f"a <reason> b {call()}", "run").call is CallKind.NONE
    assert verdict(f"perhaps {BOX}") is VerdictKind.NO_ANSWER
    assert verdict(f"perhaps {call()} {BOX}</reason>") is VerdictKind.NO_ANSWER


def test_a_first_closing_tag_ends_the_reasoning_and_a_stray_one_is_text() -> None:
    text = f"so</reason>{call('a')}more</reason>{call('b')}"
    assert [one.value()["arguments"]["code"] for one in read_turn(text, opened=True).calls] == ["a", "b"]
    assert verdict(f"so</reason>{BOX}</reason>") is VerdictKind.CORRECT
    assert extract(f"so</reason>{BOX}</reason>").answer == "4"


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('{"code": NaN}', CallKind.PARSE_ERROR),
        ('{"code": "1", "n": Infinity}', CallKind.PARSE_ERROR),
        ('{"code": "1", "n": 1e999}', CallKind.PARSE_ERROR),
        (f'{{"code": "1", "n": {"9" * MAX_DIGITS}}}', CallKind.EXECUTED),
        (f'{{"code": "1", "n": {"9" * (MAX_DIGITS + 1)}}}', CallKind.PARSE_ERROR),
        (f'{{"code": "1", "n": {"[" * (MAX_NESTING - 2)}{"]" * (MAX_NESTING - 2)}}}', CallKind.EXECUTED),
        (f'{{"code": "1", "n": {"[" * MAX_NESTING}{"]" * MAX_NESTING}}}', CallKind.PARSE_ERROR),
        (f'{{"code": "1", "n": {"[" * 50_000}{"]" * 50_000}}}', CallKind.PARSE_ERROR),
        ('{"code": "\\ud800"}', CallKind.PARSE_ERROR),
        ('{"code": "1", "\\udfff": 2}', CallKind.PARSE_ERROR),
        ('{"code": "\\ud83d\\ude00"}', CallKind.EXECUTED),
        ('{"code": "0", "code": "1"}', CallKind.EXECUTED),
    ],
)
def test_invalid_json_arguments_are_the_models_error(arguments: str, kind: CallKind) -> None:
    text = f'<tool_call>{{"name": "run", "arguments": {arguments}}}</tool_call>'
    for parse in (parse_turn, parse_user_call):
        assert parse(f"</reason>{text}", "run").call is kind
    if kind is CallKind.PARSE_ERROR:
        with pytest.raises(NoCalls):
            decode(text)
        with pytest.raises(CallUnread):
            read_turn(text).calls[0].value()
    else:
        assert decode(text)


def test_bfcl_reads_a_list_of_calls_behind_a_mention_in_the_thinking() -> None:
    text = "<think>a <tool_call> or a list?</think>[cd(folder='x')]"
    assert decode(text) == [{"cd": {"folder": "x"}}]
    assert safe_calls(text, frozenset({"cd"})) == ["cd(folder='x')"]


# --- answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"I end with <answer>\\boxed{{5}}</answer></reason>{BOX}", "4"),
        (f"so</reason>{call(f'print(5)  # {BOX}')}", None),
        (f"so</reason>{BOX}<tool_response>\n<answer>\\boxed{{5}}</answer>\n</tool_response>", "4"),
        (f"so</reason>{BOX} That was the <answer> tag.", "4"),
        (f"<reason> once more</reason>{BOX}", "4"),
        (f"I use <think> here</reason>{BOX}", "4"),
        ("so</reason><answer><think>\\boxed{5}</think>\\boxed{4}</answer>", "4"),
    ],
)
def test_an_answer_quoted_in_reasoning_call_or_response_does_not_count(text: str, answer: str | None) -> None:
    assert extract(text).answer == answer
    assert (verdict(text) is VerdictKind.CORRECT) is (answer == "4")


def test_only_answers_in_the_text_count_for_the_penalty() -> None:
    text = f"first <answer> then</reason>{call('<answer>')}{BOX}"
    turn = Turn(text=text, start=0, end=1, call=CallKind.NONE)
    assert read_turn(text, opened=True).num_answers == 1
    assert p_format([turn]) == 0.0


# --- bounds --------------------------------------------------------------------------------------------------


def readings(text: str) -> None:
    """Everything that reads a turn."""
    parse_turn(text, "run")
    parse_user_call(text, "run")
    for opened in (False, True):
        extract(text, opened=opened)
    extract_letter(text)
    without_end_marks(text)
    safe_calls(text, frozenset({"run"}))


@pytest.mark.parametrize(
    "part",
    [
        "<tool_call>",
        "<tool_call>{",
        '<tool_call>{"',
        '<tool_call>{\\"',
        '<tool_call>["',
        "<tool_call>    ",
        call(),
        "<reason>",
        "</reason><answer>",
        "<tool_response></tool_response>",
        "<|x|>",
        "answer ",
        "answer:* ",
        "\\boxed{",
        " ",
    ],
)
def test_readings_are_linear_in_the_text(part: str) -> None:
    began = time.monotonic()
    readings(f"</reason>Answer{part * (100_000 // len(part))}x")
    assert time.monotonic() - began < 20


def test_300_mutated_responses_are_read_without_exception() -> None:
    draw = random.Random("malformed turns")
    pieces = [
        "<reason>", "</reason>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>",
        "<tool_response>", "</tool_response>", "<|im_end|>", "<|im_start|>", "{", "}", "[", "]", '"', "\\", "\\u",
        "\ud800",
        "NaN", "1e999", "9" * 5000, "[" * 2000, '{"a":' * 500, "\\boxed{", "Answer:",
        "\n", "\0", "\u2028", "\uff1a",
        " " * 3000,
    ]  # fmt: skip
    sources = [
        f"I will compute this with Python.</reason>\n{call('print(12 * 34)')}<|im_end|>",
        f"So it is 4.</reason>\n{BOX}\n{BOX}<|im_end|>",
        "<think>a</think>[f(a=1, b=[2, {'c': 3}]), g.h(x='y')]",
        f'[{{"name": "run", "arguments": {{"code": "1"}}}}]{BOX}',
        "</reason>Answer: B) since \\boxed{\\text{(D)}}",
    ]
    for _ in range(300):
        text = draw.choice(sources)
        for _ in range(draw.randint(1, 8)):
            at, to = sorted(draw.randrange(len(text) + 1) for _ in range(2))
            kept = draw.choice(["", text[at:to], draw.choice(pieces), draw.choice(pieces) + text[at:to] * 2])
            text = text[:at] + kept + text[to:]
        began = time.monotonic()
        readings(text)
        assert time.monotonic() - began < 20
