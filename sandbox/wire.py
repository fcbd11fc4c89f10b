"""`pack`, `FrameReader`, `encode_call`, `encode_result`: the protocol between client and supervisor.

A frame is a 13-byte header (payload length, kind, number) and a payload. The number pairs a result with its call,
and the supervisor forwards a call without decoding it. The reader does not trust the sender: sizes are capped, JSON
is the only parser, and a malformed frame is a WireError.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import deque
from enum import IntEnum

from records.tool_call import Limits, Status, ToolCall, ToolError, ToolResult

MAX_FRAME_BYTES = 64 * 2**20
MAX_SENT_BYTES = 2**18
"""Bytes given to a socket at once."""
MAX_CODE_BYTES = 2**20
MAX_STDIN_BYTES = 2**22
"""As UTF-8. At most one file of a call (`jail.MAX_FILE_BYTES`), because the child stores its input in one."""
MAX_NAME_CHARS = 200
MAX_SECONDS = 3600.0
MAX_OUTPUT_BYTES = 16 * 2**20
MIN_MEMORY_BYTES, MAX_MEMORY_BYTES = 2**20, 2**46

_HEADER = struct.Struct("<IBQ")
_q = json.encoder.encode_basestring_ascii
"""Text as a JSON string."""
_SEED_BYTES = 16
_CALL = struct.Struct(f"<III dd QQ {_SEED_BYTES}s")
"""Bytes of session, code and stdin; wall and CPU seconds; memory and output bytes; seed."""


class WireError(ValueError):
    """The received bytes are not a frame, or not a call."""


class Kind(IntEnum):
    """Content of a frame."""

    CALL = 1
    RESULT = 2
    CANCEL = 3
    CLOSE_SESSION = 4
    READY = 5
    FAILED = 6
    STATUS = 7


def pack(kind: Kind, number: int, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    return _HEADER.pack(len(payload), kind, number) + payload


def take_batch(outbox: deque[bytes]) -> bytes:
    """Take the frames to send at once: as many as a socket may accept, because unsent bytes are copied.

    >>> outbox = deque([b"a" * MAX_SENT_BYTES, b"b", b"c"])
    >>> len(take_batch(outbox)) == MAX_SENT_BYTES, take_batch(outbox), len(outbox)
    (True, b'bc', 0)
    """
    batch, size = [], 0
    while outbox and size < MAX_SENT_BYTES:
        batch.append(outbox.popleft())
        size += len(batch[-1])
    return batch[0] if len(batch) == 1 else b"".join(batch)


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Kind, int, bytes]]:
        """Return the frames completed by `data`.

        Raises:
            WireError: a length over the cap or an unknown kind; the stream is unusable from there on.
        """
        self._buffer += data
        frames = []
        position = 0
        while len(self._buffer) - position >= _HEADER.size:
            length, kind, number = _HEADER.unpack_from(self._buffer, position)
            if length > MAX_FRAME_BYTES:
                raise WireError(f"a frame of {length} bytes is over the cap of {MAX_FRAME_BYTES}")
            if not Kind.CALL <= kind <= Kind.STATUS:
                raise WireError(f"unknown frame kind {kind}")
            start = position + _HEADER.size
            if len(self._buffer) < start + length:
                break
            frames.append((Kind(kind), number, bytes(self._buffer[start : start + length])))
            position = start + length
        del self._buffer[:position]
        return frames


def fault_of(call: ToolCall) -> str:
    """Return why a call cannot be accepted, with the remedy; empty when it can.

    >>> fault_of(ToolCall(id="a", code="1"))
    ''
    >>> fault_of(ToolCall(id="a", code="1", limits=Limits(wall_s=-1)))
    'limits.wall_s is -1; give seconds above 0 and up to 3600'
    """
    if not isinstance(call.code, str) or not isinstance(call.stdin, str):
        return "code and stdin must be text"
    for name, value in (("id", call.id), ("session", call.session)):
        if value is not None and not _is_name(value):
            return f"{name} must be text of 1 to {MAX_NAME_CHARS} characters, without lone surrogates"
    if len(call.code) > MAX_CODE_BYTES:
        return f"code has {len(call.code)} characters; at most {MAX_CODE_BYTES} are run"
    if len(call.stdin) > MAX_STDIN_BYTES // 4 and (
        fault := fault_of_stdin(len(call.stdin.encode("utf-8", "surrogatepass")))
    ):
        return fault
    if not isinstance(call.seed, int) or call.seed.bit_length() >= 8 * _SEED_BYTES:
        return f"seed must be a whole number of fewer than {8 * _SEED_BYTES} bits"
    return fault_of_limits(call.limits)


def _is_name(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def fault_of_stdin(num_bytes: int) -> str:
    """Return why a standard input of that size is refused; empty when it is not."""
    if num_bytes <= MAX_STDIN_BYTES:
        return ""
    return f"stdin has {num_bytes} bytes as UTF-8; at most {MAX_STDIN_BYTES} are passed, so the call did not start"


def fault_of_limits(limits: Limits) -> str:
    """Return why limits are refused; empty when they are not."""
    for name in ("wall_s", "cpu_s"):
        value = getattr(limits, name)
        if not isinstance(value, int | float) or not math.isfinite(value) or not 0 < value <= MAX_SECONDS:
            return f"limits.{name} is {value!r}; give seconds above 0 and up to {MAX_SECONDS:.0f}"
    if (
        not isinstance(limits.memory_bytes, int)
        or not MIN_MEMORY_BYTES <= limits.memory_bytes <= MAX_MEMORY_BYTES
    ):
        return (
            f"limits.memory_bytes is {limits.memory_bytes!r}; give {MIN_MEMORY_BYTES} to {MAX_MEMORY_BYTES}"
        )
    if not isinstance(limits.output_bytes, int) or not 0 < limits.output_bytes <= MAX_OUTPUT_BYTES:
        return f"limits.output_bytes is {limits.output_bytes!r}; give 1 to {MAX_OUTPUT_BYTES}"
    return ""


def encode_call(call: ToolCall) -> bytes:
    """Encode a head of fixed size, then session, code and stdin as UTF-8 (lone surrogates survive)."""
    limits = call.limits
    session = b"" if call.session is None else call.session.encode("utf-8", "surrogatepass")
    code = call.code.encode("utf-8", "surrogatepass")
    stdin = call.stdin.encode("utf-8", "surrogatepass")
    head = _CALL.pack(
        len(session),
        len(code),
        len(stdin),
        limits.wall_s,
        limits.cpu_s,
        limits.memory_bytes,
        limits.output_bytes,
        call.seed.to_bytes(_SEED_BYTES, "little", signed=True),
    )
    return b"".join((head, session, code, stdin))


def decode_call(payload: bytes) -> tuple[str | None, Limits, int, bytes, bytes]:
    """Return session, limits, seed, code and stdin of an encoded call.

    Raises:
        WireError: the payload is not an encoded call.
    """
    try:
        num_session, num_code, num_stdin, wall_s, cpu_s, memory_bytes, output_bytes, seed = _CALL.unpack_from(
            payload
        )
        start = _CALL.size + num_session
        if len(payload) != start + num_code + num_stdin:
            raise WireError("the lengths of a call do not add up")
        session = str(payload[_CALL.size : start], "utf-8", "surrogatepass") if num_session else None
    except (struct.error, UnicodeDecodeError) as error:
        raise WireError(f"not a call: {error}") from error
    limits = Limits(wall_s=wall_s, cpu_s=cpu_s, memory_bytes=memory_bytes, output_bytes=output_bytes)
    seed = int.from_bytes(seed, "little", signed=True)
    return session, limits, seed, payload[start : start + num_code], payload[start + num_code :]


def encode_result(result: ToolResult) -> bytes:
    """Encode the fields as a JSON list, without the id, which the frame number replaces.

    The function writes JSON itself, because an encoder object costs more than all the rest. Times are finite.
    """
    error = result.error
    text = "null" if error is None else f"[{_q(error.type)},{_q(error.message)},{_q(error.traceback)}]"
    value = "null" if result.value is None else _q(result.value)
    return (
        f'["{result.status.value}",{_q(result.stdout)},{_q(result.stderr)},{value},{text},{result.wall_s!r},'
        f"{result.cpu_s!r},{result.queue_s!r},{result.max_rss_bytes},{result.dropped_bytes}]"
    ).encode()


def decode_result(payload: bytes, call_id: str) -> ToolResult:
    """Decode the result of the call `call_id`.

    >>> result = ToolResult(id="a", status=Status.OK, value="2")
    >>> decode_result(encode_result(result), "a") == result
    True
    """
    fields = json.loads(payload.decode("ascii"))
    status, stdout, stderr, value, error, wall_s, cpu_s, queue_s, rss_bytes, dropped = fields
    return ToolResult(
        id=call_id,
        status=Status(status),
        stdout=stdout,
        stderr=stderr,
        value=value,
        error=ToolError(type=error[0], message=error[1], traceback=error[2]) if error else None,
        wall_s=wall_s,
        cpu_s=cpu_s,
        queue_s=queue_s,
        max_rss_bytes=rss_bytes,
        dropped_bytes=dropped,
    )


def refusal(status: Status, why: str, call_id: str = "") -> ToolResult:
    """Return the result of a call that the sandbox did not accept, or did not run to its end."""
    return ToolResult(
        id=call_id, status=status, error=ToolError(type=status.value, message=why, traceback="")
    )


def refusal_when_withdrawn(call_id: str = "") -> ToolResult:
    """Return the result of a call that the caller cancelled before it ran."""
    return refusal(Status.CANCELLED, "cancelled before it started", call_id)


_RETRY_AFTER = re.compile(r"the queue is full; retry after (\d+\.\d+) s")
REJECTED_PREFIX = b'["rejected"'
"""Start of an encoded result whose call never started."""


def refusal_when_full(wait_s: float) -> ToolResult:
    """Return the result of a call for which the queue has no room; the caller may retry after `wait_s`."""
    return refusal(Status.REJECTED, f"the queue is full; retry after {wait_s:.2f} s")


def retry_after_s(result: ToolResult) -> float | None:
    """Return the seconds before a refused call may be sent again; None when the queue had room.

    >>> retry_after_s(refusal_when_full(0.25)), retry_after_s(ToolResult(id="a", status=Status.OK))
    (0.25, None)
    """
    if result.status is not Status.REJECTED or result.error is None:
        return None
    found = _RETRY_AFTER.fullmatch(result.error.message)
    return float(found.group(1)) if found else None
