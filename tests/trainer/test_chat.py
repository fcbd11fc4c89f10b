"""Text of a conversation: calls of a turn, tool responses, the chat template."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.tool_call import Status, ToolError, ToolResult
from records.trajectory import CallKind
from tests.trainer.tiny_checkpoint import TEXT, VOCAB
from trainer.rollout.chat import (
    ONE_CALL_ONLY,
    OPENING,
    TAGS,
    TURN_END,
    ChatFormat,
    ParsedTurn,
    cut_middle,
    parse_turn,
    response_text,
)
from trainer.rollout.chat_text import live
from trainer.rollout.tokenizer import FolderCodec, save_tokenizer, train_tokenizer

CALLED = ParsedTurn(call=CallKind.EXECUTED, code="1")


def call(body: object) -> str:
    return f"so I compute</reason>\n<tool_call>\n{body if isinstance(body, str) else json.dumps(body)}\n</tool_call>"


def good(code: str = "print(1)") -> str:
    return call({"name": "run", "arguments": {"code": code, "input": "5"}})


# --- what a turn asks for ------------------------------------------------------------------------------------


def test_a_good_call_gives_code_and_stdin() -> None:
    turn = parse_turn(good("print(input())"), "run")
    assert (turn.call, turn.code, turn.stdin, turn.error) == (CallKind.EXECUTED, "print(input())", "5", "")


@pytest.mark.parametrize("text", ["", "it is 4</reason><answer>4</answer>", "</tool_call> only", "<tools>"])
def test_a_turn_without_a_call_has_no_call(text: str) -> None:
    assert parse_turn(text, "run") == ParsedTurn(call=CallKind.NONE)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("so</reason><tool_call>{", "</tool_call> is missing"),
        (call("{"), "not JSON"),
        (call("print(1)"), "not JSON"),
        (call("[" * 100_000), "not JSON"),
        (call({"name": "run"}), "'arguments' is missing"),
        (call({"name": "run", "arguments": {}}), "'code' is missing"),
        (call({"arguments": {"code": "1"}}), "'name' is missing"),
        (call([1]), "needs an object"),
        (call("null"), "needs an object"),
        (call({"name": "run", "arguments": "1"}), "needs an object"),
        (call({"name": "run", "arguments": {"code": 1}}), "needs an object"),
        (call({"name": "run", "arguments": {"code": "1", "input": None}}), "needs an object"),
        (call({"name": ["run"], "arguments": {"code": "1"}}), "needs an object"),
        (call({"name": "run", "arguments": {"code": "\ud800"}}), "surrogates not allowed"),
    ],
)
def test_an_unreadable_call_is_the_models_error_and_gets_a_message(text: str, error: str) -> None:
    turn = parse_turn(text, "run")
    assert turn.call is CallKind.PARSE_ERROR
    assert error in turn.error
    assert response_text(turn, None, 256).startswith("tool call failed\nreason: cannot read the call: ")


def test_the_message_after_an_unknown_tool_names_the_known_one() -> None:
    turn = parse_turn(call({"name": "shell" * 100, "arguments": {"code": "1"}}), "run")
    assert turn.call is CallKind.UNKNOWN_TOOL
    assert len(turn.error) < 120
    assert turn.error.endswith("; use run")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (good() * 3, CallKind.EXECUTED),
        (call("{") + good() * 2, CallKind.PARSE_ERROR),
        (call({"name": "ls", "arguments": {"code": "1"}}) + good() * 2, CallKind.UNKNOWN_TOOL),
    ],
)
def test_the_first_call_counts_and_the_others_are_counted(text: str, kind: CallKind) -> None:
    turn = parse_turn(text, "run")
    assert (turn.call, turn.num_extra_calls) == (kind, 2)
    result = ToolResult(id="c", status=Status.OK, stdout="1\n") if kind is CallKind.EXECUTED else None
    assert response_text(turn, result, 256).endswith(f"\n{ONE_CALL_ONLY}")


def test_line_breaks_inside_the_json_strings_are_read() -> None:
    assert (
        parse_turn(call('{"name": "run", "arguments": {"code": "a = 1\nprint(a)"}}'), "run").code
        == "a = 1\nprint(a)"
    )


@given(st.text(alphabet=st.sampled_from('<>/{}[]":,\\tolcarename_ 1\n'), max_size=80))
def test_no_text_breaks_the_reader(text: str) -> None:
    turn = parse_turn(f"</reason><tool_call>{text}</tool_call>", "run")
    assert turn.call is not CallKind.NONE or "reason>" in text or "tool_call>" in text


# --- what the model reads of its call --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult(id="c", status=Status.OK, stdout="4\n5\n"), "4\n5"),
        (ToolResult(id="c", status=Status.OK, value="[1, 2]"), "[1, 2]"),
        (ToolResult(id="c", status=Status.OK, stdout="4\n", value="9"), "4"),
        (ToolResult(id="c", status=Status.OK), "(no output)"),
        (ToolResult(id="c", status=Status.OK, stdout="\n\n"), "(no output)"),
        (
            ToolResult(id="c", status=Status.TIMEOUT),
            "tool call failed\nreason: time limit reached\n"
            "output: none is shown of a call that reached a time limit",
        ),
        (
            ToolResult(id="c", status=Status.TIMEOUT, stdout="1\n"),
            "tool call failed\nreason: time limit reached\noutput so far: 1",
        ),
        (ToolResult(id="c", status=Status.MEMORY), "tool call failed\nreason: memory limit reached"),
        (
            ToolResult(id="c", status=Status.OUTPUT_LIMIT, stdout="aa\n"),
            "tool call failed\nreason: too much output\noutput so far: aa",
        ),
        (ToolResult(id="c", status=Status.CRASH), "tool call failed\nreason: the interpreter crashed"),
        (ToolResult(id="c", status=Status.ERROR), "tool call failed\nreason: the code raised an exception"),
        (
            ToolResult(id="c", status=Status.ERROR, error=ToolError(type="E", message="E: m", traceback="1\nE: m")),
            "tool call failed\nreason: error message: 1\nE: m",
        ),
        (
            ToolResult(id="c", status=Status.ERROR, error=ToolError(type="E", message="E: m", traceback="")),
            "tool call failed\nreason: error message: E: m",
        ),
    ],
    ids=lambda value: value.status.value if isinstance(value, ToolResult) else "",
)  # fmt: skip
def test_each_status_of_the_code_has_its_text(result: ToolResult, shown: str) -> None:
    assert response_text(CALLED, result, 256) == shown


@pytest.mark.parametrize("status", [s for s in Status if s.is_infrastructure])
def test_a_failure_of_the_infrastructure_is_never_shown(status: Status) -> None:
    with pytest.raises(ValueError, match="never shown"):
        response_text(CALLED, ToolResult(id="c", status=status), 256)


def test_seconds_never_reach_the_text() -> None:
    slow = ToolResult(id="c", status=Status.TIMEOUT, wall_s=12.5, cpu_s=3.25, queue_s=1.5, max_rss_bytes=77)
    assert response_text(CALLED, slow, 256) == response_text(CALLED, slow.without_clock(), 256)


@given(st.text(alphabet="ab.\n", max_size=20), st.integers(1, 60), st.integers(32, 200))
def test_a_long_text_keeps_head_and_tail_and_its_limit(piece: str, count: int, limit: int) -> None:
    text = piece * count
    cut = cut_middle(text, limit)
    if len(text) <= limit:
        assert cut == text
    else:
        assert len(cut) == limit
        head, tail = cut.split("...(truncated)...")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(tail) - len(head) in (0, 1)


@pytest.mark.parametrize("marker", [*TAGS, TURN_END, "<|im_start|>", "<|endoftext|>", OPENING])
def test_a_marker_printed_by_code_is_disarmed(marker: str) -> None:
    shown = response_text(CALLED, ToolResult(id="c", status=Status.OK, stdout=f"a{marker}b"), 256)
    assert marker not in shown
    assert marker.replace("<", "") in re.sub("< ?/?", lambda m: "/" if "/" in m[0] else "", shown).replace(
        " ", ""
    )


def test_a_disarmed_response_encodes_to_ordinary_tokens(tiny_checkpoint: Path) -> None:
    codec = FolderCodec.load(tiny_checkpoint)
    markers = {codec.encode(live(marker))[0] for marker in (*TAGS, TURN_END, "<|im_start|>")}
    printed = "".join((*TAGS, TURN_END, "<|im_start|>"))
    shown = response_text(CALLED, ToolResult(id="c", status=Status.OK, stdout=printed), 500)
    assert not markers & set(codec.encode(live(shown)))


# --- prompt and template -----------------------------------------------------------------------------------------


def test_the_paper_prompt_holds_the_schema_of_the_configured_tool() -> None:
    stateless = ChatFormat(system="full", tool_name="run")
    schema = json.loads(stateless.prompt("q").split("<tools>\n")[1].split("\n</tools>")[0])
    assert schema["function"]["name"] == "run"
    assert list(schema["function"]["parameters"]["properties"]) == ["code", "input"]
    session = json.loads(ChatFormat(system="full", tool_name="run", session=True).schema())
    assert list(session["function"]["parameters"]["properties"]) == ["code"]
    assert stateless.prompt("q{x}").endswith(f"This is the problem:\nq{{x}}{TURN_END}\n{OPENING}")


def test_the_brief_prompt_is_the_question_alone() -> None:
    chat = ChatFormat(system="brief", tool_name="run")
    assert chat.prompt("q") == f"<|im_start|>user\nq{TURN_END}\n{OPENING}"


@pytest.mark.parametrize("system", ["full", "brief"])
@pytest.mark.parametrize("session", [True, False])
def test_transformers_renders_the_template_exactly_as_a_rollout_builds_it(
    system: str, session: bool, tmp_path: Path
) -> None:
    """Text and ids, through the files of an exported checkpoint."""
    from transformers import AutoTokenizer

    chat = ChatFormat(system=system, tool_name="run", session=session)  # pyright: ignore[reportArgumentType]
    save_tokenizer(train_tokenizer([TEXT] * 40, VOCAB), tmp_path, chat)
    tokenizer, codec = AutoTokenizer.from_pretrained(tmp_path), FolderCodec.load(tmp_path)
    question, turns, responses = 'What is "2" + {2}?\n', [good(), "4</reason>"], ["4\n{{ x }}"]
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": turns[0]},
        {"role": "tool", "content": responses[0]},
    ]
    expected = chat.prompt(question)
    assert tokenizer.apply_chat_template(messages[:1], tokenize=False, add_generation_prompt=True) == expected
    expected += turns[0] + TURN_END + chat.tool_response(responses[0])
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert rendered == expected
    pieces = [chat.prompt(question), turns[0] + TURN_END, chat.tool_response(responses[0])]
    ids = [i for piece in pieces for i in codec.encode(piece)]
    assert codec.decode(ids) == rendered
    assert tokenizer(chat.prompt(question), add_special_tokens=False)["input_ids"] == codec.encode(pieces[0])
    done = [*messages, {"role": "assistant", "content": turns[1]}]
    assert tokenizer.apply_chat_template(done, tokenize=False) == expected + turns[1] + TURN_END + "\n"
