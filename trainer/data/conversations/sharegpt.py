"""Messages with `from` and `value`: human, gpt, function_call, observation. Two sources come in this form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.data.conversations.conversation import (
    Call,
    Conversation,
    Message,
    conversation,
    field_of,
    functions_of,
    parsed,
)
from trainer.data.sources import RowFault


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row with `conversations`, `tools` (JSON text or list) and perhaps `system`.

    Several calls in a row are one message of the assistant.
    """
    messages: list[Message] = []
    if isinstance(system := record.get("system"), str) and system.strip():
        messages.append(Message(role="system", text=system))
    for turn in field_of(record, "conversations", list):
        if not isinstance(turn, Mapping) or not isinstance(turn.get("value"), str):
            raise RowFault("wrong_type", "a message without from and value")
        _append(messages, str(turn.get("from")), turn["value"])
    return conversation(id, source, messages, functions_of(record.get("tools")))


def _append(messages: list[Message], speaker: str, value: str) -> None:
    match speaker:
        case "human" | "user":
            messages.append(Message(role="user", text=value))
        case "gpt" | "assistant":
            messages.append(Message(role="assistant", text=value))
        case "system":
            messages.append(Message(role="system", text=value))
        case "observation" | "tool":
            messages.append(Message(role="tool", text=value))
        case "function_call":
            messages.append(Message(role="assistant", text="", calls=calls_of(value)))
        case _:
            raise RowFault("unknown_role", speaker[:40])


def calls_of(value: str) -> tuple[Call, ...]:
    """Calls from JSON text of one object or a list of them. Raises RowFault: bad_call."""
    found = parsed(value, "bad_call")
    listed = found if isinstance(found, list) else [found]
    if not listed or not all(isinstance(each, dict) for each in listed):
        raise RowFault("bad_call", value[:80])
    return tuple(Call.of(each.get("name"), each.get("arguments", {})) for each in listed)
