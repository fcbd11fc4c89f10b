"""`Conversation`: what every source of SFT data becomes.

Arguments of a call are canonical JSON text, so that equal calls are equal text whatever the source wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trainer.data.sources import RowFault

Role = Literal["system", "user", "assistant", "tool"]
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a function."""

    name: str
    arguments: str
    """Canonical JSON of an object."""

    @classmethod
    def of(cls, name: Any, arguments: Any) -> Call:
        """Raises RowFault: bad_call, when the name is empty or the arguments are no JSON object."""
        if isinstance(arguments, str):
            arguments = parsed(arguments, "bad_call")
        if not isinstance(name, str) or not name.strip():
            raise RowFault("bad_call", "a call without a name")
        if not isinstance(arguments, dict):
            raise RowFault("bad_call", f"arguments of {name[:60]} are no object")
        return cls(name=name.strip(), arguments=canonical(arguments))

    def text(self) -> str:
        """The call as a model writes it between its tags."""
        return f'{{"name": {json.dumps(self.name, ensure_ascii=False)}, "arguments": {self.arguments}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; an assistant's may hold calls, a tool's is the result of one."""

    role: Role
    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A whole conversation, ending with an assistant's message."""

    id: str
    source: str
    functions: tuple[str, ...]
    """Signatures of what may be called, JSON objects with name, description and parameters."""
    messages: tuple[Message, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Conversation:
        messages = tuple(
            Message(role=m["role"], text=m["text"], calls=tuple(Call(**call) for call in m["calls"]))
            for m in record["messages"]
        )
        return cls(
            id=record["id"], source=record["source"], functions=tuple(record["functions"]), messages=messages
        )

    @property
    def num_calls(self) -> int:
        return sum(len(message.calls) for message in self.messages)

    @property
    def num_results(self) -> int:
        return sum(message.role == "tool" for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Turns a row of one source into a conversation."""

    name: str
    convert: Callable[[Mapping[str, Any], str, str], Conversation]
    """Row, id and name of the source. Raises RowFault with the reason that the row is not used."""


def canonical(value: Any) -> str:
    """JSON text of a value with sorted keys. Raises RowFault for a number that JSON has no name for."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise RowFault("bad_call", str(error)) from None


def parsed(text: str, reason: str) -> Any:
    """The value of a JSON text. Raises RowFault with this reason."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowFault(reason, f"{error}: {text[:60]!r}") from None


def functions_of(value: Any) -> tuple[str, ...]:
    """Signatures from a list, one object, or JSON text of either. Raises RowFault: bad_functions."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    found = parsed(value, "bad_functions") if isinstance(value, str) else value
    listed = found if isinstance(found, list) else [found]
    signatures = []
    for each in listed:
        inner = parsed(each, "bad_functions") if isinstance(each, str) else each
        inner = inner.get("function", inner) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            raise RowFault("bad_functions", str(inner)[:80])
        signatures.append(canonical(inner))
    return tuple(signatures)


def conversation(
    id: str, source: str, messages: Sequence[Message], functions: tuple[str, ...] = ()
) -> Conversation:
    """A conversation whose order has been checked; user messages in a row and what follows the last answer are cut.

    Raises RowFault: no_answer, no_question, bad_order, unknown_function.
    """
    kept = list(messages)
    while kept and kept[-1].role != "assistant":
        kept.pop()
    if not kept:
        raise RowFault("no_answer", "no message of the assistant")
    if not any(message.role == "user" and message.text.strip() for message in kept):
        raise RowFault("no_question", "no message of the user")
    for before, message in zip([None, *kept], kept, strict=False):
        _check(before, message)
    known = {json.loads(signature)["name"] for signature in functions}
    for message in kept:
        for call in message.calls:
            if known and call.name not in known:
                raise RowFault("unknown_function", call.name[:80])
    return Conversation(id=id, source=source, functions=functions, messages=tuple(kept))


def _check(before: Message | None, message: Message) -> None:
    if message.role == "assistant" and not message.text.strip() and not message.calls:
        raise RowFault("no_answer", "an empty message of the assistant")
    if message.role == "system" and before is not None:
        raise RowFault("bad_order", "a system message after another")
    if message.role == "assistant" and (before is None or before.role in ("system", "assistant")):
        raise RowFault("bad_order", f"an assistant after {before.role if before else 'nothing'}")
    if message.role == "tool" and (before is None or not (before.calls or before.role == "tool")):
        raise RowFault("bad_order", "a result without a call")


def field_of(record: Mapping[str, Any], name: str, kind: type) -> Any:
    """A column of a row. Raises RowFault: missing_column, wrong_type."""
    if name not in record:
        raise RowFault("missing_column", name)
    if not isinstance(record[name], kind):
        raise RowFault("wrong_type", f"{name} is {type(record[name]).__name__}")
    return record[name]
