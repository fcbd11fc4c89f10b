"""`chatml`: a conversation in plain ChatML, for benchmarks with the native prompt and for SFT conversations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from trainer.rollout.chat import NEWLINE, TURN_END
from trainer.rollout.chat_text import ChatText, live

Message = Mapping[str, str]
"""role (system, user, assistant, tool) and content."""
ANSWER = live("<|im_start|>assistant\n")


def chatml(messages: Sequence[Message], functions: Sequence[Mapping[str, Any]] = ()) -> ChatText:
    """Render plain ChatML; functions go into the system message."""
    system, rest = live(""), list(messages)
    if functions:
        if rest and rest[0]["role"] == "system":
            system = system + rest.pop(0)["content"] + live("\n\n")
        lines = "\n".join(json.dumps({"type": "function", "function": dict(f)}) for f in functions)
        before, after = (live(part.format()) for part in _FUNCTIONS.split("{functions}"))
        rest.insert(0, {"role": "system", "content": system + before + lines + after})
    return _all_of(_written(message) for message in rest) + ANSWER


def follow_up(messages: Sequence[Message]) -> ChatText:
    r"""Return the text between the end of one assistant turn and the first token of the next.

    Starts with the newline that ends the assistant's message; results of calls share one user message.

    >>> follow_up([{"role": "user", "content": "And now?"}])
    '\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n'
    """
    results = [message["content"] for message in messages if message["role"] == "tool"]
    others = [message for message in messages if message["role"] != "tool"]
    if results:
        blocks = [live("<tool_response>\n") + result + live("\n</tool_response>") for result in results]
        others.insert(
            0, {"role": "user", "content": _all_of([blocks[0], *(NEWLINE + b for b in blocks[1:])])}
        )
    return NEWLINE + _all_of(_written(message) for message in others) + ANSWER


def _written(message: Message) -> ChatText:
    role = "user" if message["role"] == "tool" else message["role"]
    return live("<|im_start|>") + role + NEWLINE + message["content"] + TURN_END + NEWLINE


def _all_of(parts: Iterable[ChatText]) -> ChatText:
    return reduce(ChatText.__add__, parts, live(""))


_FUNCTIONS = (
    "# Tools\n\nThese functions may be called to help the user; their signatures are inside <tools></tools>:\n"
    "<tools>\n{functions}\n</tools>\n\n"
    "Write each call as a JSON object with the function's name and arguments inside <tool_call></tool_call>:\n"
    '<tool_call>\n{{"name": <function name>, "arguments": <JSON object of arguments>}}\n</tool_call>'
)
