"""`NativeChat`: the model's own chat, without the suite's tool and tags, for benchmarks with the native prompt.

An external checkpoint brings its chat template. The template of a checkpoint of this suite is the agentic conversation,
so its native chat is plain ChatML, with functions inside `<tools>` as Qwen models read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records.files import read_json
from trainer.rollout.chat import OPENING, TAGS, TURN_END
from trainer.rollout.chat_text import ChatText, live
from trainer.rollout.chatml import Message, chatml
from trainer.rollout.tokenizer import control_of, transformers_tokenizer


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


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    # A broken template is refused: plain ChatML in its place would be a form that the model was not trained on.
    return settings.is_file() and "chat_template" in read_json(settings)
