"""Llama-Nemotron post-training, split chat: input (messages, or one text), output, system_prompt, reasoning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainer.data.conversations.conversation import (
    Conversation,
    Converter,
    Message,
    conversation,
    field_of,
)
from trainer.data.conversations.openai import messages_of
from trainer.data.sources import RowFault

_SWITCH = re.compile(r"detailed thinking (on|off)\s*", re.IGNORECASE)
"""System text that switches reasoning; it means nothing to another model."""


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row without reasoning. Raises RowFault: reasoning, when its answer holds a block of it."""
    given, output = field_of(record, "input", object), field_of(record, "output", str)
    if "<think>" in output:
        raise RowFault("reasoning", "an answer with a block of reasoning")
    messages = [Message(role="user", text=given)] if isinstance(given, str) else None
    if messages is None:
        if not isinstance(given, list):
            raise RowFault("wrong_type", f"input is {type(given).__name__}")
        messages = messages_of(given)
    system = _SWITCH.sub("", str(record.get("system_prompt") or "")).strip()
    if system and messages[0].role != "system":
        messages.insert(0, Message(role="system", text=system))
    return conversation(id, source, [*messages, Message(role="assistant", text=output)])


CONVERTER = Converter(name="nemotron", convert=convert)
