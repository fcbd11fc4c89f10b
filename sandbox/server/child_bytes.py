"""`parse_outcome` and `CellInbox`: the only readers of bytes that code in a child may have produced.

Every function here takes any bytes, in any pieces, and returns a record of plain checked values or None. It executes
and unpickles nothing, allocates no more than it read, and does not raise. `tests/sandbox/fuzz.py` tests it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from records.tool_call import Limits, Status

CELL_HEADER = struct.Struct("<I")
"""Header of a job or an outcome on the socket of a session: its length."""
SET_UP = CELL_HEADER.pack(0)
"""First message of a session: it is isolated and has run no code. An outcome is never empty."""
_BYTES_PER_CHAR = 12
"""JSON bytes per character at most: a character beyond the basic plane is two escapes."""
_CHARS_BESIDE_VALUE = 20_000
"""Bytes for type, message and traceback of an error, for keys and for numbers."""
_STATUSES = {"ok": Status.OK, "error": Status.ERROR, "timeout": Status.TIMEOUT, "memory": Status.MEMORY}
_MAX_COUNT = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A child's report of its run. Even if forged, each field has its type and bounds, and its text is UTF-8."""

    status: Status
    value: str | None = None
    value_dropped: int = 0
    error: str = "Error"
    """Name of the type of the exception."""
    message: str = ""
    traceback: str = ""
    wall_s: float | None = None
    cpu_s: float | None = None


def decode(data: bytes) -> str:
    """Decode captured output."""
    return data.decode("utf-8", "replace")


def to_character_end(data: bytes) -> bytes:
    """Drop a character that the cut left incomplete at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back else data
    return data


def from_character_start(data: bytes) -> bytes:
    """Drop the rest of a character that the cut left incomplete at the start."""
    start = 0
    while start < min(4, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def max_outcome_bytes(limits: Limits) -> int:
    """Return the length of the longest outcome that unmodified child code writes; a longer one is not read.

    >>> max_outcome_bytes(Limits(output_bytes=1000))
    252000
    """
    return _BYTES_PER_CHAR * (limits.output_bytes + _CHARS_BESIDE_VALUE)


def parse_outcome(data: bytes) -> Outcome | None:
    """Parse the outcome that a child left; None when the bytes are no outcome.

    >>> parse_outcome(b'{"status": "ok", "value": "2"}').value, parse_outcome(b'{"status": []}')
    ('2', None)
    """
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(record, dict):
        return None
    status = record.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        return None
    value = record.get("value")
    return Outcome(
        status=_STATUSES[status],
        value=without_surrogates(value) if isinstance(value, str) else None,
        value_dropped=_count(record.get("value_dropped")),
        error=_text(record.get("type"), 200) or "Error",
        message=_text(record.get("message"), 5_000),
        traceback=_text(record.get("traceback"), 20_000),
        wall_s=_seconds(record.get("wall_s")),
        cpu_s=_seconds(record.get("cpu_s")),
    )


def _text(value: object, limit: int) -> str:
    return without_surrogates(value[:limit]) if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < _MAX_COUNT else 0


def _seconds(value: object) -> float | None:
    return value if isinstance(value, float) and 0.0 <= value < _MAX_COUNT else None


def without_surrogates(text: str) -> str:
    r"""Replace each lone surrogate by its escape, as Python's own stderr does, so that UTF-8 can encode the text.

    >>> without_surrogates("a\ud800")
    'a\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


class CellInbox:
    """Bytes received from the interpreter of a session, and the outcome in them."""

    def __init__(self) -> None:
        self.is_set_up = False
        """The interpreter is isolated. If it ends before that, the sandbox is at fault."""
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data

    def is_over_full(self, limits: Limits | None) -> bool:
        """Return whether it holds more than an outcome of a cell with these limits; None: no cell runs."""
        return len(self._data) > (0 if limits is None else CELL_HEADER.size + max_outcome_bytes(limits))

    def take(self) -> bytes | None:
        """Return the outcome of the cell when it is complete, and discard bytes behind it."""
        if not self.is_set_up and self._data.startswith(SET_UP):
            self.is_set_up = True
            del self._data[: len(SET_UP)]
        if len(self._data) < CELL_HEADER.size:
            return None
        size = CELL_HEADER.size + CELL_HEADER.unpack_from(self._data)[0]
        if len(self._data) < size:
            return None
        text = bytes(self._data[CELL_HEADER.size : size])
        self._data.clear()
        return text
