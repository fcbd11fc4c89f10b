"""The model's own chat, without our tool and its tags: for benchmarks that the paper asks in the native prompt.

A checkpoint from elsewhere brings its chat template. One of ours carries the agentic conversation as its template, so
its native chat is plain ChatML, with functions inside `<tools>` as the family of models reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.atomic import read_json
from trainer.chat import OPENING, TURN_END
from trainer.tokenizer import transformers_tokenizer

Message = Mapping[str, str]
"""role (system, user, assistant, tool) and content."""
ANSWER = "<|im_start|>assistant\n"


@dataclass(frozen=True, slots=True)
class NativeChat:
    """Text of a conversation in the model's own form."""

    tokenizer: Any = None
    """With a chat template of its own; None: plain ChatML."""

    @classmethod
    def of(cls, folder: Path) -> NativeChat:
        """The chat of a checkpoint folder. Raises ConfigError when its tokenizer cannot be read."""
        if not _has_template(folder):
            return cls()
        tokenizer = transformers_tokenizer(folder)
        template = str(tokenizer.chat_template or "")
        return cls() if not template or json.dumps(OPENING)[1:-1] in template else cls(tokenizer)

    def opening(self, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]] = ()) -> str:
        r"""Text up to the first sampled token.

        Args:
            messages: the conversation so far, the user's word last.
            functions: what may be called: name, description and parameters (a JSON schema).

        >>> NativeChat().opening([{"role": "user", "content": "Hello"}])
        '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n'
        """
        if self.tokenizer is None:
            return chatml(messages, functions)
        tools = [{"type": "function", "function": dict(function)} for function in functions]
        if tools and "tools" not in str(self.tokenizer.chat_template):
            return chatml(messages, functions)
        return self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=tools or None,
            add_generation_prompt=True,
            tokenize=False,
        )


def chatml(messages: Sequence[Message], functions: Sequence[Mapping[str, Any]] = ()) -> str:
    """Plain ChatML; functions go into the system message."""
    told, rest = "", list(messages)
    if functions:
        if rest and rest[0]["role"] == "system":
            told = f"{rest.pop(0)['content']}\n\n"
        lines = "\n".join(json.dumps({"type": "function", "function": dict(f)}) for f in functions)
        rest.insert(0, {"role": "system", "content": told + _FUNCTIONS.format(functions=lines)})
    return "".join(_written(message) for message in rest) + ANSWER


def follow_up(messages: Sequence[Message]) -> str:
    r"""What stands between the end of one assistant turn and the first token of the next.

    Starts with the newline that ends the assistant's message; results of calls share one user message.

    >>> follow_up([{"role": "user", "content": "And now?"}])
    '\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n'
    """
    results = [message["content"] for message in messages if message["role"] == "tool"]
    said = [message for message in messages if message["role"] != "tool"]
    if results:
        blocks = "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)
        said.insert(0, {"role": "user", "content": blocks})
    return "\n" + "".join(_written(message) for message in said) + ANSWER


def _written(message: Message) -> str:
    role = "user" if message["role"] == "tool" else message["role"]
    return f"<|im_start|>{role}\n{message['content']}{TURN_END}\n"


_FUNCTIONS = (
    "# Tools\n\nThese functions may be called to help the user; their signatures are inside <tools></tools>:\n"
    "<tools>\n{functions}\n</tools>\n\n"
    "Write each call as a JSON object with the function's name and arguments inside <tool_call></tool_call>:\n"
    '<tool_call>\n{{"name": <function name>, "arguments": <JSON object of arguments>}}\n</tool_call>'
)


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    # A broken one is refused: plain ChatML in its place would ask the model in a form that it was not trained on.
    return settings.is_file() and "chat_template" in read_json(settings)
