"""Messages with `role` and `content`. Two sources come in this form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.data.conversations.conversation import ROLES, Message
from trainer.data.sources import RowFault


def messages_of(turns: list[Any]) -> list[Message]:
    """Messages with role and content. Raises RowFault: wrong_type, unknown_role."""
    found = []
    for turn in turns:
        if not isinstance(turn, Mapping) or not isinstance(turn.get("content"), str):
            raise RowFault("wrong_type", "a message without role and content")
        if turn.get("role") not in ROLES:
            raise RowFault("unknown_role", str(turn.get("role"))[:40])
        found.append(Message(role=turn["role"], text=turn["content"]))
    return found
