r"""Glaive function calling v2: columns system and chat, each one text, or rows that LLaMA-Factory has parsed.

In `chat` speakers are marked by USER:, ASSISTANT: and FUNCTION RESPONSE:, a turn of the assistant ends with
<|endoftext|>, and a call follows <functioncall>, its arguments between single quotes, which are not JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any

from trainer.data.conversations import sharegpt
from trainer.data.conversations.conversation import (
    Call,
    Conversation,
    Converter,
    Message,
    conversation,
    field_of,
    functions_of,
    parsed,
)
from trainer.data.sources import RowFault

_SPEAKER = re.compile(r"(?:^|\n\s*)(USER|ASSISTANT|FUNCTION RESPONSE):", re.MULTILINE)
_CALL = "<functioncall>"
_END = "<|endoftext|>"
_QUOTED = re.compile(
    r'^\s*\{\s*"name"\s*:\s*"(?P<name>[^"]*)"\s*,\s*"arguments"\s*:\s*(?P<rest>.*)\}\s*$', re.DOTALL
)


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row of either form."""
    if "conversations" in record:
        return sharegpt.convert(record, id, source)
    chat, system = field_of(record, "chat", str), field_of(record, "system", str)
    messages: list[Message] = []
    pieces = _SPEAKER.split(chat)
    if pieces[0].strip():
        raise RowFault("bad_order", f"text before the first speaker: {pieces[0][:40]!r}")
    for speaker, words in zip(pieces[1::2], pieces[2::2], strict=True):
        text = words.replace(_END, "").strip()
        match speaker:
            case "USER":
                messages.append(Message(role="user", text=text))
            case "FUNCTION RESPONSE":
                messages.append(Message(role="tool", text=text))
            case _:
                messages.append(_assistant(text))
    return conversation(id, source, messages, _functions(system))


def _assistant(text: str) -> Message:
    before, *calls = text.split(_CALL)
    return Message(role="assistant", text=before.strip(), calls=tuple(call_of(call) for call in calls))


def call_of(text: str) -> Call:
    r"""A call as the set writes it.

    >>> call_of('{"name": "add", "arguments": \'{"a": 1, "b": "it is"}\'}')
    Call(name='add', arguments='{"a": 1, "b": "it is"}')

    Raises RowFault: bad_call.
    """
    found = _QUOTED.match(text)
    if found is None:
        raise RowFault("bad_call", text.strip()[:80])
    arguments = found["rest"].strip()
    if arguments.startswith("'") and arguments.endswith("'") and len(arguments) > 1:
        arguments = arguments[1:-1].replace("\\'", "'")
    return Call.of(found["name"], parsed(arguments, "bad_call"))


def _functions(system: str) -> tuple[str, ...]:
    """Signatures in the system text: JSON objects one after the other."""
    decoder, signatures, at = JSONDecoder(), [], system.find("{")
    while at >= 0:
        try:
            found, at = decoder.raw_decode(system, at)
        except (JSONDecodeError, RecursionError) as error:
            raise RowFault("bad_functions", str(error)) from None
        signatures.append(found)
        at = system.find("{", at)
    return functions_of(signatures)


CONVERTER = Converter(name="glaive", convert=convert)
