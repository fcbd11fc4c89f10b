"""`ChatFormat`: text of a conversation, such as prompt, tool call and tool response.

The format is ChatML with a pre-filled `<reason>` on every assistant turn (paper section 2.1, Fig. 3; the figure's
`<think>` is a confirmed typo). All functions are pure functions of strings. `trainer.rollout.loop` encodes each piece
separately and never re-tokenises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from config.model import RolloutSection
from records.tool_call import Status, ToolResult
from records.trajectory import CallKind
from trainer.rollout.chat_text import ChatText, live
from trainer.rollout.user_tool import UserTool, load_user_tool
from verifier.turn import CallText, CallUnread, read_turn

TURN_END = live("<|im_end|>")
"""Ends every message; the id of this token stops generation."""
OPENING = live("<|im_start|>assistant\n<reason>")
"""Pre-filled at the start of every assistant turn, never sampled."""
NEWLINE = live("\n")
TAGS = (
    "<reason>",
    "</reason>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<answer>",
    "</answer>",
    "<tools>",
    "</tools>",
)
"""Added to a tokenizer of this suite as ordinary tokens: special ones would vanish from decoded text."""

ONE_CALL_ONLY = "Only the first tool call of a turn is run."
_CUT = "...(truncated)..."
_MARKER = re.compile(r"(</?)(\||reason|tool|answer)")


class Codec(Protocol):
    """Text to ids and back."""

    def encode(self, text: str) -> list[int]:
        """Ids of the text alone, without additions; foreign text gives no control token (`chat_text`)."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens included."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat:
    """The configured form of a conversation."""

    system: Literal["full", "brief"]
    tool_name: str
    session: bool = False
    """True for the stateful tool, whose schema has no stdin."""
    response_chars: int = 256
    own: UserTool | None = None
    """A user's tool that replaces the Python tool."""

    def prompt(self, question: str) -> ChatText:
        """Text before the first sampled token, including the opening of the turn."""
        if self.system == "brief":
            return live("<|im_start|>user\n") + question + TURN_END + NEWLINE + OPENING
        before, after = (live(part.format()) for part in _SYSTEM.split("{schema}"))
        system = live("<|im_start|>system\n") + before + self.schema() + after + TURN_END + NEWLINE
        return system + live(f"<|im_start|>user\n{_TASK}") + question + TURN_END + NEWLINE + OPENING

    def tool_response(self, text: str) -> ChatText:
        """Text after a turn that called the tool: the response under the user role, and the next opening.

        It starts with the newline that ends the assistant message, because the turn's ids end at the end-of-turn
        token (public fault B10).
        """
        head = live("\n<|im_start|>user\n<tool_response>\n")
        return head + text + live("\n</tool_response>") + TURN_END + NEWLINE + OPENING

    def schema(self) -> str:
        """The tool's function signature as one line of JSON."""
        if self.own is not None:
            return self.own.schema
        properties = {"code": {"type": "string", "description": "The Python code to run."}}
        if not self.session:
            properties["input"] = {
                "type": "string",
                "description": "Text given to the code on standard input.",
            }
        function = {
            "name": self.tool_name,
            "description": "Run Python code and return what it prints; an exception is returned as its message.",
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        }
        return json.dumps({"type": "function", "function": function})

    def parse(self, text: str) -> ParsedTurn:
        """Find the call of a turn to the tool of this conversation."""
        return parse_turn(text, self.tool_name) if self.own is None else parse_user_call(text, self.own.name)

    def program(self, parsed: ParsedTurn) -> tuple[str, str]:
        """Code and standard input of a call: those of the model, or a user's tool with the arguments as data."""
        return (parsed.code, parsed.stdin) if self.own is None else (self.own.program, parsed.code)


_SYSTEM = (
    "This is a conversation between a User and an Assistant. The User asks a question and the Assistant solves it. "
    "The Assistant first reasons and then gives the answer: reasoning inside <reason></reason>, the answer inside "
    "<answer></answer>.\n\n# Tools\n\nThe Assistant may call a function to help with the question. "
    "The function signature is given inside <tools></tools>:\n<tools>\n{schema}\n</tools>\n\n"
    "To call it, write one JSON object with the function's name and arguments inside <tool_call></tool_call>:\n"
    '<tool_call>\n{{"name": <function name>, "arguments": <JSON object of arguments>}}\n</tool_call>'
)
_TASK = (
    "Put your answer inside <answer></answer>. The final answer is taken from \\boxed{} inside it.\n"
    "This is the problem:\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTurn:
    """The request of an assistant turn."""

    call: CallKind
    code: str = ""
    stdin: str = ""
    error: str = ""
    """The message for the model after parse_error and unknown_tool."""
    num_extra_calls: int = 0


def parse_turn(text: str, tool_name: str) -> ParsedTurn:
    r"""Find the first tool call of a turn after its reasoning, and count the others.

    A call is JSON with `name` and `arguments`; the arguments hold `code` and optionally `input`. Anything else between
    the tags is the model's error: the response describes it, and nothing is dropped silently (paper section 2.1). In a
    turn with an answer it is text. `verifier.turn` defines what is a call.

    >>> parse_turn('I run it</reason><tool_call>{"name": "run", "arguments": {"code": "1"}}</tool_call>', "run").code
    '1'
    >>> parse_turn("so</reason><tool_call>{</tool_call>", "run").call
    <CallKind.PARSE_ERROR: 'parse_error'>
    >>> parse_turn("perhaps <tool_call>{</tool_call>, but no: it is 4</reason>", "run").call
    <CallKind.NONE: 'none'>
    """
    return _parse(text, tool_name, _python_arguments, "arguments (object with code, a string)")


def parse_user_call(text: str, tool_name: str) -> ParsedTurn:
    """As `parse_turn` for a user's tool: arguments are any object, stored as canonical JSON in `code`.

    >>> parse_user_call('so</reason><tool_call>{"name": "add", "arguments": {"b": 2, "a": 1}}</tool_call>', "add").code
    '{"a": 1, "b": 2}'
    """
    return _parse(text, tool_name, _any_arguments, "arguments (object)")


def _python_arguments(arguments: Any) -> tuple[str, str]:
    code, stdin = arguments["code"], arguments.get("input", "")
    if not (isinstance(code, str) and isinstance(stdin, str)):
        raise TypeError("code and input must be strings")
    return code, stdin


def _any_arguments(arguments: Any) -> tuple[str, str]:
    if not isinstance(arguments, dict):
        raise TypeError("arguments must be an object")
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False), ""


def _parse(text: str, tool_name: str, read: Callable[[Any], tuple[str, str]], required: str) -> ParsedTurn:
    turn = read_turn(text, opened=True)
    if not turn.calls:
        return ParsedTurn(call=CallKind.NONE)
    parsed = _parsed_call(turn.calls[0], tool_name, read, required)
    if parsed.call is CallKind.PARSE_ERROR and turn.gives_answer:
        return ParsedTurn(call=CallKind.NONE)
    return replace(parsed, num_extra_calls=len(turn.calls) - 1)


def _parsed_call(
    written: CallText, tool_name: str, read: Callable[[Any], tuple[str, str]], required: str
) -> ParsedTurn:
    try:
        call = written.value()
        name = call["name"]
        if not isinstance(name, str):
            raise TypeError("name must be a string")
        code, stdin = read(call["arguments"])
    except CallUnread as error:
        return ParsedTurn(call=CallKind.PARSE_ERROR, error=str(error))
    except KeyError as error:
        return ParsedTurn(call=CallKind.PARSE_ERROR, error=f"{error} is missing")
    except (TypeError, AttributeError):
        message = f"needs an object with name (string) and {required}"
        return ParsedTurn(call=CallKind.PARSE_ERROR, error=message)
    if name != tool_name:
        return ParsedTurn(call=CallKind.UNKNOWN_TOOL, error=f"no tool named {name[:64]!r}; use {tool_name}")
    return ParsedTurn(call=CallKind.EXECUTED, code=code, stdin=stdin)


def response_text(turn: ParsedTurn, result: ToolResult | None, limit: int) -> str:
    """Text of a tool response (paper section 2.1 and Figs. 10, 11).

    After success it is the bare output, or the value of the last expression if nothing was printed. After a failure the
    first line reports it, and the reason follows. Seconds, addresses and paths are absent: equal behaviour gives equal
    text.
    """
    if turn.call is CallKind.PARSE_ERROR:
        text = f"tool call failed\nreason: cannot read the call: {turn.error}"
    elif turn.call is CallKind.UNKNOWN_TOOL:
        text = f"tool call failed\nreason: {turn.error}"
    elif result is None:
        raise ValueError("an executed call has a result")
    else:
        text = _result_text(result)
    if turn.num_extra_calls:
        text = f"{text}\n{ONE_CALL_ONLY}"
    return cut_middle(_without_tags(text), limit)


def _result_text(result: ToolResult) -> str:
    if result.status.is_infrastructure:
        raise ValueError(f"status {result.status} is never shown to the model")
    if result.status is Status.OK:
        shown = result.stdout.rstrip("\n") or (result.value or "")
        return shown or "(no output)"
    parts = ["tool call failed"]
    if result.status is Status.ERROR and result.error is not None:
        parts.append(f"reason: error message: {result.error.traceback or result.error.message}".rstrip("\n"))
    else:
        parts.append(f"reason: {_REASONS[result.status]}")
    if result.status is Status.TIMEOUT and not result.stdout:
        parts.append(WITHHELD)
    if result.stdout:
        parts.append(f"output so far: {result.stdout.rstrip()}")
    return "\n".join(parts)


WITHHELD = "output: none is shown of a call that reached a time limit"
"""The clock decides how far such a call comes, so the sandbox withholds its output."""
_REASONS = {
    Status.ERROR: "the code raised an exception",
    Status.TIMEOUT: "time limit reached",
    Status.MEMORY: "memory limit reached",
    Status.OUTPUT_LIMIT: "too much output",
    Status.CRASH: "the interpreter crashed",
}


def cut_middle(text: str, limit: int) -> str:
    """Keep the start and the end of a long text (the release's 'middle' rule, there 256 characters).

    >>> cut_middle("abcdefgh" * 10, 37)
    'abcdefghab...(truncated)...ghabcdefgh'
    """
    if len(text) <= limit:
        return text
    kept = max(limit - len(_CUT), 2)
    return text[: kept // 2] + _CUT + text[-(kept - kept // 2) :]


def _without_tags(text: str) -> str:
    """Disarm chat markers in tool output, which could otherwise forge a turn or an answer."""
    return _MARKER.sub(r"\1 \2", text)


def chat_template(chat: ChatFormat) -> str:
    """The same conversation as a Jinja template, for the tokenizer of an exported checkpoint.

    A template cannot distinguish a control token from its imitation in a message (docs/decisions.md, D28). It renders
    user, assistant and tool messages. The opening `<reason>` belongs to the generation prompt, so the content of an
    assistant message in a history starts after it.
    """
    system, task = "", ""
    if chat.system == "full":
        system = f"<|im_start|>system\n{_SYSTEM.format(schema=chat.schema())}{TURN_END}\n"
        task = _TASK
    start = json.dumps("<|im_start|>user\n")
    end = json.dumps(f"{TURN_END}\n")
    return (
        "{{- " + json.dumps(system) + " }}"
        "{%- for message in messages %}"
        "{%- if message.role == 'user' %}"
        "{{- "
        + start
        + " + ("
        + json.dumps(task)
        + " if loop.first else '') + message.content + "
        + end
        + " }}"
        "{%- elif message.role == 'tool' %}"
        "{{- " + start + " + '<tool_response>\\n' + message.content + '\\n</tool_response>' + " + end + " }}"
        "{%- elif message.role == 'assistant' %}"
        "{{- " + json.dumps(OPENING) + " + message.content + " + end + " }}"
        "{%- endif %}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}{{- " + json.dumps(OPENING) + " }}{%- endif %}"
    )


def chat_format(rollout: RolloutSection) -> ChatFormat:
    """The configured conversation."""
    return ChatFormat(
        system=rollout.system,
        tool_name=rollout.tool.python_name,
        session=rollout.tool.state == "session",
        response_chars=rollout.tool.response_chars,
    )


def rollout_chat(rollout: RolloutSection) -> ChatFormat:
    """The conversation of rollouts, with a configured user's tool. The SFT teacher supports Python only."""
    chat = chat_format(rollout)
    if rollout.tool.own is None:
        return chat
    own = load_user_tool(rollout.tool.own)
    return replace(chat, own=own, tool_name=own.name, session=False)
