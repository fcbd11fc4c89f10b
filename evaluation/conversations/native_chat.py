"""`NativeChat`: the model's own chat, without the suite's tool and tags, for benchmarks with the native prompt.

An external checkpoint brings its chat template. The template of a checkpoint of this suite is the agentic conversation,
so its native chat is plain ChatML, with functions inside `<tools>` as Qwen models read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from records.files import read_json
from trainer.rollout.chat import NEWLINE, OPENING, TAGS, TURN_END
from trainer.rollout.chat_text import ChatText, live
from trainer.rollout.tokenizer import control_of, transformers_tokenizer

Message = Mapping[str, str]
"""role (system, user, assistant, tool) and content."""
ANSWER = live("<|im_start|>assistant\n")


@dataclass(frozen=True, slots=True)
class NativeChat:
    """Text of a conversation in the model's own form."""

    tokenizer: Any = None
    """A tokenizer with its own chat template; None: plain ChatML."""

    @classmethod
    def of(cls, folder: Path) -> NativeChat:
        """Return the chat of a checkpoint folder; raises ConfigError when its tokenizer cannot be read."""
        if not _has_template(folder):
            return cls()
        tokenizer = transformers_tokenizer(folder)
        template = str(tokenizer.chat_template or "")
        return cls() if not template or json.dumps(OPENING)[1:-1] in template else cls(tokenizer)

    def opening(self, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]] = ()) -> ChatText:
        r"""Return the text up to the first sampled token; the contents of messages and functions are foreign text.

        Args:
            messages: the conversation so far, with the user's message last.
            functions: available functions: name, description and parameters (a JSON schema).

        >>> NativeChat().opening([{"role": "user", "content": "Hello"}])
        '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n'
        """
        if self.tokenizer is None:
            return chatml(messages, functions)
        tools = [{"type": "function", "function": dict(function)} for function in functions]
        if tools and "tools" not in str(self.tokenizer.chat_template):
            return chatml(messages, functions)
        marks = Marks.of(self.tokenizer, [messages, tools])
        rendered = self.tokenizer.apply_chat_template(
            marks.put(messages),
            tools=marks.put(tools) or None,
            add_generation_prompt=True,
            tokenize=False,
        )
        return marks.taken_out(rendered)


@dataclass(frozen=True, slots=True)
class Marks:
    """Stand-ins for control tokens that messages spell, while a chat template renders them.

    A template returns one string, which no longer shows what was foreign text. So each control token in a message is
    replaced by a word of letters and digits before rendering, and restored as foreign text after it.
    """

    tokens: tuple[str, ...]
    prefix: str
    """Prefix of the stand-ins; no message contains it."""

    @classmethod
    def of(cls, tokenizer: Any, content: Any) -> Marks:
        """Make stand-ins for the control tokens of a tokenizer and the suite's tags."""
        added = tokenizer.added_tokens_decoder
        tokens = {added[at].content for at in control_of(added)} | {*TAGS, "<|im_start|>", str(TURN_END)}
        text, prefix = json.dumps(content, ensure_ascii=False), "foreigntoken"
        while prefix in text:
            prefix += "x"
        return cls(tuple(sorted(tokens, key=lambda token: (-len(token), token))), prefix)

    def put(self, content: Any) -> Any:
        """Return messages or functions with stand-ins in all their strings."""
        if isinstance(content, str):
            found = re.compile("|".join(map(re.escape, self.tokens)))
            return found.sub(lambda hit: f"{self.prefix}{self.tokens.index(hit[0])}z", str(content))
        if isinstance(content, Mapping):
            return {self.put(key): self.put(value) for key, value in content.items()}
        return [self.put(item) for item in content] if isinstance(content, list | tuple) else content

    def taken_out(self, rendered: str) -> ChatText:
        """Restore the tokens in the rendered text, as foreign text."""
        text = live("")
        for number, part in enumerate(re.split(f"{self.prefix}([0-9]+)z", rendered)):
            text = text + (self.tokens[int(part)] if number % 2 else live(part))
        return text


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


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    # A broken template is refused: plain ChatML in its place would be a form that the model was not trained on.
    return settings.is_file() and "chat_template" in read_json(settings)
