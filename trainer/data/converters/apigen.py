"""APIGen-MT (Salesforce/APIGen-MT-5k): columns conversations, tools, system; CC-BY-NC-4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.data.conversations import sharegpt
from trainer.data.conversations.conversation import (
    Conversation,
    Converter,
    field_of,
)


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row; the policy of its domain is the system message."""
    field_of(record, "tools", object)
    return sharegpt.convert(record, id, source)


CONVERTER = Converter(name="apigen", convert=convert)
