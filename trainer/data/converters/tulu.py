"""Tulu 3 persona instruction following: columns messages (role, content), prompt and constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.data.conversations.conversation import (
    Conversation,
    Converter,
    conversation,
    field_of,
)
from trainer.data.conversations.openai import messages_of


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row, its messages as they are."""
    return conversation(id, source, messages_of(field_of(record, "messages", list)))


CONVERTER = Converter(name="tulu", convert=convert)
