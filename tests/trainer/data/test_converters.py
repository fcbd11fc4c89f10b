"""Each source of SFT data: calls parse back to the same name and arguments, broken rows have a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from config.recipes import Conversion
from trainer.data.conversations.conversation import Call, Conversation
from trainer.data.conversations.pieces import pieces_of
from trainer.data.converters import CONVERTERS
from trainer.data.converters.magicoder import TOOL
from trainer.data.converters.tool_ace import calls_of
from trainer.data.sources import RowFault
from trainer.rollout.chat import ChatFormat
from verifier.turn import read_turn

CHAT = ChatFormat(system="full", tool_name=TOOL)
WEATHER = {"name": "get weather", "description": "d", "parameters": {"type": "dict", "properties": {}}}
GLAIVE_SYSTEM = (
    "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
    + json.dumps({"name": "get_news", "description": "d", "parameters": {}}, indent=4)
    + "\n"
    + json.dumps({"name": "add", "description": "a {b}", "parameters": {}})
)
GLAIVE_CHAT = (
    "USER: News of today, please.\n\n\nASSISTANT: I look it up. <functioncall> "
    """{"name": "get_news", "arguments": '{"country": "It\\'s here", "n": 3}'} <|endoftext|>\n\n\n"""
    'FUNCTION RESPONSE: {"headline": "USER: no"}\n\n\nASSISTANT: Here it is. <|endoftext|>'
)
ROWS: dict[str, tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]] = {
    "tool_ace": (
        {
            "system": f"You may call functions:\n{json.dumps([WEATHER, {**WEATHER, 'name': 'b.c'}])}\nSay [f(x)].",
            "conversations": [
                {"from": "user", "value": "Weather?"},
                {
                    "from": "assistant",
                    "value": """[get weather(city="A, (b) ]", days=[1, 2.5], o={"k": None, 'x': True}), """
                    """b.c(q='it\\'s')]""",
                },
                {"from": "tool", "value": "[]"},
                {"from": "assistant", "value": "It is fine."},
            ],
        },
        [
            ("get weather", {"city": "A, (b) ]", "days": [1, 2.5], "o": {"k": None, "x": True}}),
            ("b.c", {"q": "it's"}),
        ],
    ),
    "apigen": (
        {
            "system": "A policy.",
            "tools": json.dumps([{"name": "f", "parameters": {}}]),
            "conversations": [
                {"from": "human", "value": "Do it."},
                {"from": "function_call", "value": '{"name": "f", "arguments": {"a": {"b": [1]}}}'},
                {"from": "observation", "value": "done"},
                {"from": "gpt", "value": "Done."},
            ],
        },
        [("f", {"a": {"b": [1]}})],
    ),
    "glaive": (
        {"system": GLAIVE_SYSTEM, "chat": GLAIVE_CHAT},
        [("get_news", {"country": "It's here", "n": 3})],
    ),
    "magicoder": (
        {
            "lang": "python",
            "problem": "Print a sum.",
            "solution": 'I add.\n```python\nprint("</tool_call>", 1 + 1)\n```\nDone.',
        },
        [(TOOL, {"code": 'print("</tool_call>", 1 + 1)', "input": ""})],
    ),
    "tulu": (
        {"id": "x", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]},
        [],
    ),
    "nemotron": (
        {
            "input": [{"role": "user", "content": "Hi"}],
            "output": "Ho",
            "reasoning": "off",
            "system_prompt": "detailed thinking off",
        },
        [],
    ),
}  # fmt: skip


def turns(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"conversations": [{"from": speaker, "value": value} for speaker, value in pairs]}


def convert(name: str, row: dict[str, Any]) -> Conversation:
    return CONVERTERS[name].convert(row, f"{name}-0", name)


def read_back(conversation: Conversation) -> list[tuple[str, Any]]:
    """Calls as the parser of rollouts and benchmarks reads them from the text that training sees."""
    found = []
    for piece in pieces_of(conversation, CHAT):
        if piece.is_trained:
            opened = "</reason>" in piece.text
            for written in read_turn(piece.text.removesuffix("<|im_end|>"), opened=opened).calls:
                value = written.value()
                found.append((value["name"], value["arguments"]))
    return found


def test_every_conversion_of_a_recipe_has_a_converter_and_a_row_here() -> None:
    assert sorted(get_args(Conversion)) == sorted(CONVERTERS) == sorted(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_calls_parse_back_to_the_same_name_and_arguments(name: str) -> None:
    row, calls = ROWS[name]
    conversation = convert(name, row)
    assert [
        (call.name, json.loads(call.arguments)) for m in conversation.messages for call in m.calls
    ] == calls
    assert read_back(conversation) == calls
    assert Conversation.from_json(json.loads(json.dumps(conversation.to_json()))) == conversation
    assert conversation.messages[-1].role == "assistant"


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("tool_ace", {"system": None}, "wrong_type"),
        ("tool_ace", turns(("user", "q"), ("assistant", "[f(x=")), "bad_call"),
        ("tool_ace", turns(("user", "q"), ("assistant", "[f(1)]")), "bad_call"),
        ("tool_ace", turns(("user", "q"), ("assistant", "[zz(a=1)]")), "unknown_function"),
        ("tool_ace", turns(("robot", "q")), "unknown_role"),
        ("apigen", {"tools": "{"}, "bad_functions"),
        ("apigen", turns(("human", "q"), ("function_call", "{")), "bad_call"),
        ("apigen", turns(("human", "q"), ("function_call", '{"name": "f", "arguments": "x"}')), "bad_call"),
        ("apigen", turns(("human", "q"), ("observation", "r"), ("gpt", "a")), "bad_order"),
        ("apigen", {"conversations": "text"}, "wrong_type"),
        ("glaive", {"chat": GLAIVE_CHAT.replace('"n": 3}', '"n": }')}, "bad_call"),
        ("glaive", {"chat": "USER: q\n\n\n"}, "no_answer"),
        ("glaive", {"chat": "hello"}, "bad_order"),
        ("magicoder", {"solution": "no code"}, "no_code"),
        ("magicoder", {"solution": "```python\n1\n```\n```python\n2\n```"}, "several_blocks"),
        ("magicoder", {"solution": "```python\nprint 'x'\n```"}, "bad_code"),
        ("tulu", {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": " "}]}, "no_answer"),
        ("tulu", {"messages": [{"role": "assistant", "content": "a"}]}, "no_question"),
        ("tulu", {"messages": [{"role": "user", "content": None}]}, "wrong_type"),
        ("nemotron", {"output": "<think>hm</think>Ho"}, "reasoning"),
        ("nemotron", {"input": 3}, "wrong_type"),
    ],
)  # fmt: skip
def test_a_broken_row_is_refused_with_its_reason(name: str, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        convert(name, {**ROWS[name][0], **change})
    assert caught.value.reason == reason


@pytest.mark.parametrize("name", ROWS)
def test_a_row_without_its_columns_is_a_missing_column(name: str) -> None:
    with pytest.raises(RowFault) as caught:
        convert(name, {"something": "else"})
    assert caught.value.reason == "missing_column"


def test_a_bracketed_answer_that_is_no_call_stays_text() -> None:
    row = {
        **ROWS["tool_ace"][0],
        "conversations": [{"from": "user", "value": "q"}, {"from": "assistant", "value": "[1, 2]"}],
    }
    assert convert("tool_ace", row).messages[-1].text == "[1, 2]"
    assert [call.name for call in calls_of("[a(x=1),b(y=f())]"[:8] + "]")] == ["a"]


def test_a_number_that_json_cannot_write_is_no_argument() -> None:
    with pytest.raises(RowFault):
        Call.of("f", {"a": float("nan")})


@pytest.mark.shared
def test_the_glaive_slice_has_211_calls_and_211_results(shared_dir: Path) -> None:
    path = shared_dir / "data" / "glaive_toolcall_demo.jsonl"
    found = [convert("glaive", json.loads(line)) for line in path.read_text().splitlines()]
    assert len(found) == 300
    assert sum(each.num_calls for each in found) == sum(each.num_results for each in found) == 211
    for each in found:
        calls = [(call.name, json.loads(call.arguments)) for m in each.messages for call in m.calls]
        assert read_back(each) == calls
