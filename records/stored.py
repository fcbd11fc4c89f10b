"""`read_record` and `write_record`: JSON files in the shape of a frozen dataclass.

The annotations of a class that inherits `Stored` are the shape of its file. Reading is strict: an unknown key, another
type, NaN and infinity are errors.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from records.errors import ConfigError
from records.files import read_text, write_json

T = TypeVar("T")


class Stored:
    """Base of dataclasses whose instances are JSON files or parts of them."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def read_record(kind: type[T], path: Path, remedy: str) -> T:
    """Parse and check one JSON file.

    Args:
        kind: a class that inherits `Stored`, or a list of one.
        path: path of the file.
        remedy: instruction for the user when the file is wrong.

    Raises:
        ConfigError: missing, unreadable, not JSON, or of another shape.
    """
    text = read_text(path, remedy)
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise ConfigError(f"{path}: {first_problem(error)}; {remedy}") from None


def first_problem(error: ValidationError) -> str:
    """Return the place and the message of the first error, in one line."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"is not JSON ({first.get('ctx', {}).get('error')})"
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def write_record(path: Path, record: Any) -> None:
    """Write a dataclass as indented JSON with sorted keys; equal records give equal bytes."""
    write_json(path, asdict(record))
