"""What an engine process and the process that started it send each other: one JSON object per message, never pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """Of the local engine in the child."""

    engine: int
    capacity_tokens: int
    max_len: int
    device: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsOnDisk:
    """The order to take weights."""

    number: int
    """Of the order; the answer repeats it."""
    folder: str
    is_checkpoint: bool
    """True: a checkpoint folder, checked whole; False: tensors of the parent's model, by `weights_store`."""
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsTaken:
    """The answer to `WeightsOnDisk`."""

    number: int
    fault: str
    """Why the engine refused them; empty when it took them."""


Order = GenerateRequest | WeightsOnDisk | Release | Abort
Answer = Completion | EngineReport | WeightsTaken
_KINDS = {
    kind.__name__: kind
    for kind in (GenerateRequest, WeightsOnDisk, Release, Abort, Completion, EngineReport, WeightsTaken)
}


def send(connection: Connection, messages: Sequence[Order | Answer]) -> None:
    """Send messages together. Raises OSError when the other process ended."""
    record = [[type(message).__name__, asdict(message)] for message in messages]
    connection.send_bytes(json.dumps(record).encode())


def receive(connection: Connection) -> list[Any]:
    """Wait for the messages of one `send`. Raises EOFError or OSError when the other process ended.

    >>> import multiprocessing
    >>> one, other = multiprocessing.Pipe()
    >>> send(one, [Release(session="a"), Abort(session="b")])
    >>> receive(other)
    [Release(session='a'), Abort(session='b')]
    """
    return [_KINDS[name](**_typed(fields)) for name, fields in json.loads(connection.recv_bytes())]


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the tuples and enumerations that JSON lacks."""
    if "stop_ids" in fields:
        fields["stop_ids"] = tuple(fields["stop_ids"])
    if "finish" in fields:
        fields["finish"] = Finish(fields["finish"])
    return fields


def settings_text(settings: ChildSettings) -> str:
    """For the command line of the child."""
    return json.dumps(asdict(settings))


def settings_of(text: str) -> ChildSettings:
    """The inverse of `settings_text`."""
    return ChildSettings(**json.loads(text))
