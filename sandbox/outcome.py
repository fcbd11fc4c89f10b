"""From what a child left behind to a ToolResult. The child may have forged every byte it could reach."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import dataclass

from sandbox.jail import MAX_FILE_BYTES
from sandbox.records import Limits, Status, ToolError, ToolResult
from sandbox.runner import CPU_SIGNAL

_BYTES_PER_CHAR = 12
"""Of JSON at most: a character beyond the basic plane is two escapes."""
_CHARS_BESIDE_VALUE = 20_000
"""Type, message and traceback of an error, keys and numbers."""
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b")
_CHILD_STATUSES = {"ok": Status.OK, "error": Status.ERROR, "timeout": Status.TIMEOUT, "memory": Status.MEMORY}
SHOWN_FOLDER = "/tmp"
_NUM_CORES = os.cpu_count() or 1


@dataclass(slots=True, kw_only=True)
class Ending:
    """What the supervisor knows about the end of a run, from the kernel and from its own clock."""

    exit_code: int
    """As os.waitstatus_to_exitcode gives it; negative for a signal. 0 while a session lives on."""
    limit_hit: str = ""
    """Which time limit we enforced, in words; empty for none."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    queue_s: float = 0.0
    max_rss_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Reading:
    """How to read what a child left: how much of it, and what to hide."""

    limits: Limits
    folder: str
    deterministic: bool


def read_stream(descriptor: int, limit: int) -> tuple[str, int, bool]:
    """Text of a captured stream (head and tail), bytes dropped, and whether it was stopped at the file limit."""
    size = os.fstat(descriptor).st_size
    if size <= limit:
        return _decode(os.pread(descriptor, size, 0)) if size else "", 0, False
    half = limit // 2
    head = _decode(_to_character_end(os.pread(descriptor, half, 0))) if half else ""
    tail = _decode(_from_character_start(os.pread(descriptor, half, size - half))) if half else ""
    dropped = size - 2 * half
    return f"{head}\n... [{dropped} bytes dropped] ...\n{tail}", dropped, size >= MAX_FILE_BYTES


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _to_character_end(data: bytes) -> bytes:
    """Without a character that the cut left incomplete."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back else data
    return data


def _from_character_start(data: bytes) -> bytes:
    start = 0
    while start < min(4, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def max_outcome_bytes(limits: Limits) -> int:
    """What an honest child writes at most; a longer outcome is not even read.

    >>> max_outcome_bytes(Limits(output_bytes=1000))
    252000
    """
    return _BYTES_PER_CHAR * (limits.output_bytes + _CHARS_BESIDE_VALUE)


def parse_outcome(data: bytes) -> dict[str, object] | None:
    """The JSON object a child left, or None when it is not one.

    >>> parse_outcome(b'{"status": "ok"}'), parse_outcome(b'{"status": []}')
    ({'status': 'ok'}, None)
    """
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    status = record.get("status") if isinstance(record, dict) else None
    return record if isinstance(status, str) and status in _CHILD_STATUSES else None


def judge(
    record: dict[str, object] | None,
    out: tuple[str, int, bool],
    err: tuple[str, int, bool],
    ending: Ending,
    how: Reading,
) -> ToolResult:
    """The one result of a run, without its id."""
    status, error = _status_of(record, ending, how.limits.cpu_s, out[2] or err[2])
    stdout, stderr, value, dropped = _shown(out[0], how), _shown(err[0], how), None, out[1] + err[1]
    if error is not None:
        if how.deterministic and status is Status.TIMEOUT:
            stdout = stderr = ""  # how far the code came is a matter of the clock
        error = ToolError(
            type=_shown(error.type, how),
            message=_shown(error.message, how),
            traceback=_traceback(error, status, how),
        )
    elif record is not None and isinstance(record.get("value"), str):
        value = _shown(_text(record, "value", how.limits.output_bytes + 200), how)
        dropped += _count(record, "value_dropped")
    own_wall_s = _seconds(record, "wall_s", ending.wall_s, ending.wall_s)
    own_cpu_s = _seconds(record, "cpu_s", ending.cpu_s, ending.wall_s * _NUM_CORES)
    return ToolResult(
        id="",
        status=status,
        stdout=stdout,
        stderr=stderr,
        value=value,
        error=error,
        wall_s=own_wall_s,
        cpu_s=own_cpu_s,
        queue_s=ending.queue_s,
        max_rss_bytes=ending.max_rss_bytes,
        dropped_bytes=dropped,
    )


def _status_of(
    record: dict[str, object] | None, ending: Ending, limit_cpu_s: float, is_flooded: bool
) -> tuple[Status, ToolError | None]:
    code = ending.exit_code
    if is_flooded or code == -signal.SIGXFSZ:
        return Status.OUTPUT_LIMIT, ToolError(
            type="OutputLimit", message="too much output; stopped", traceback=""
        )
    if ending.limit_hit and (code != 0 or record is None):
        return Status.TIMEOUT, ToolError(type="TimeoutError", message=ending.limit_hit, traceback="")
    was_killed_late = code == -signal.SIGKILL and ending.cpu_s >= limit_cpu_s
    if was_killed_late or code in (-signal.SIGXCPU, -CPU_SIGNAL):
        # The kernel's own limit came before our look, for the supervisor had no turn for two seconds; or the code had
        # taken our handler off the timer.
        message = f"CPU time limit of {limit_cpu_s:g} s reached"
        return Status.TIMEOUT, ToolError(type="TimeoutError", message=message, traceback="")
    if code != 0 or record is None:
        return _death(code, ending)
    status = _CHILD_STATUSES[str(record["status"])]
    if status is Status.OK:
        return status, None
    error = ToolError(
        type=_text(record, "type", 200) or "Error",
        message=_text(record, "message", 5_000),
        traceback=_text(record, "traceback", 20_000),
    )
    return status, error


def _death(code: int, ending: Ending) -> tuple[Status, ToolError]:
    how = how_it_died(code) if code else "ended without a result"
    return Status.CRASH, ToolError(
        type="InterpreterDied", message=f"the interpreter died: {how}", traceback=""
    )


def how_it_died(code: int) -> str:
    """An exit code in words.

    >>> how_it_died(-9), how_it_died(3)
    ('killed by signal 9 (SIGKILL)', 'exit code 3 before the code had ended')
    """
    if code < 0:
        return f"killed by signal {-code} ({_signal_name(-code)})"
    return f"exit code {code} before the code had ended"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _traceback(error: ToolError, status: Status, how: Reading) -> str:
    if how.deterministic and status is Status.TIMEOUT:
        return f"{error.type}: {_shown(error.message, how)}"  # the line it was at is a matter of the clock
    return _shown(error.traceback, how)


def _shown(text: str, how: Reading) -> str:
    """Text without the call's temporary folder and, when deterministic, addresses."""
    if not text:
        return text
    if how.folder in text:
        text = text.replace(how.folder, SHOWN_FOLDER)
    if how.deterministic and "at 0x" in text:
        text = _ADDRESS.sub("at 0x0", text)
    return text


def _text(record: dict[str, object] | None, key: str, limit: int) -> str:
    """A text that the child left: the only way from its record into a result, so every text of a result is UTF-8."""
    value = record.get(key) if record else None
    return without_surrogates(value[:limit]) if isinstance(value, str) else ""


def without_surrogates(text: str) -> str:
    r"""Text that UTF-8 can hold: a lone surrogate becomes its escape, as in Python's own stderr.

    >>> without_surrogates("a\ud800")
    'a\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _count(record: dict[str, object] | None, key: str) -> int:
    value = record.get(key) if record else None
    return value if isinstance(value, int) and 0 <= value < 2**40 else 0


def _seconds(record: dict[str, object] | None, key: str, otherwise: float, most: float) -> float:
    """A time the child measured of itself, believed only where it is possible."""
    value = record.get(key) if record else None
    return value if isinstance(value, float) and 0.0 <= value <= most else otherwise
