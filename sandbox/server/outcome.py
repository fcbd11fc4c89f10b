"""`judge`: makes a ToolResult of what a child left. The child may have forged every byte that it could write."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass

from records.tool_call import Limits, Status, ToolError, ToolResult
from sandbox.child.jail import MAX_FILE_BYTES
from sandbox.child.runner import CPU_SIGNAL
from sandbox.server.child_bytes import Outcome, decode, from_character_start, to_character_end

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b")
_CUT_ADDRESS = re.compile(
    r"\bat 0x[0-9a-fA-F]{0,16}(?=\n\.\.\. \[\d+ (?:bytes )?dropped\])"
    r"|(?<=dropped\] \.\.\.\n)(?:[at]{0,2} )?0?x?[0-9a-fA-F]{1,16}(?=[>,;])"
)
"""An address whose head or tail the cut of a long text removed."""
SHOWN_FOLDER = "/tmp"
_NUM_CORES = os.cpu_count() or 1


@dataclass(slots=True, kw_only=True)
class Ending:
    """Facts about the end of a run, from the kernel and from the clock of the supervisor."""

    exit_code: int
    """As `os.waitstatus_to_exitcode` returns it; negative for a signal. 0 while a session lives on."""
    limit_hit: str = ""
    """The time limit that the supervisor enforced, in words; empty for none."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    queue_s: float = 0.0
    max_rss_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Reading:
    """How much of a child's output to read, and what to hide."""

    limits: Limits
    folder: str
    deterministic: bool


def read_stream(descriptor: int, limit: int) -> tuple[str, int, bool]:
    """Return the text of a captured stream (head and tail), bytes dropped, and whether the file limit stopped it."""
    size = os.fstat(descriptor).st_size
    if size <= limit:
        return decode(os.pread(descriptor, size, 0)) if size else "", 0, False
    half = limit // 2
    head = decode(to_character_end(os.pread(descriptor, half, 0))) if half else ""
    tail = decode(from_character_start(os.pread(descriptor, half, size - half))) if half else ""
    dropped = size - 2 * half
    return f"{head}\n... [{dropped} bytes dropped] ...\n{tail}", dropped, size >= MAX_FILE_BYTES


def judge(
    left: Outcome | None,
    out: tuple[str, int, bool],
    err: tuple[str, int, bool],
    ending: Ending,
    how: Reading,
) -> ToolResult:
    """Return the result of a run, without its id."""
    status, error = _status_of(left, ending, how.limits.cpu_s, out[2] or err[2])
    stdout, stderr, value, dropped = _shown(out[0], how), _shown(err[0], how), None, out[1] + err[1]
    if error is not None:
        if how.deterministic and status is Status.TIMEOUT:
            stdout = stderr = ""  # the progress of the code depends on the clock
        error = ToolError(
            type=_shown(error.type, how),
            message=_shown(error.message, how),
            traceback=_traceback(error, status, how),
        )
    elif left is not None and left.value is not None:
        value = _shown(left.value[: how.limits.output_bytes + 200], how)
        dropped += left.value_dropped
    own_wall_s = _seconds(left and left.wall_s, ending.wall_s, ending.wall_s)
    own_cpu_s = _seconds(left and left.cpu_s, ending.cpu_s, ending.wall_s * _NUM_CORES)
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
    left: Outcome | None, ending: Ending, limit_cpu_s: float, is_flooded: bool
) -> tuple[Status, ToolError | None]:
    code = ending.exit_code
    if is_flooded or code == -signal.SIGXFSZ:
        return Status.OUTPUT_LIMIT, ToolError(
            type="OutputLimit", message="too much output; stopped", traceback=""
        )
    if ending.limit_hit and (code != 0 or left is None):
        return Status.TIMEOUT, ToolError(type="TimeoutError", message=ending.limit_hit, traceback="")
    was_killed_late = code == -signal.SIGKILL and ending.cpu_s >= limit_cpu_s
    if was_killed_late or code in (-signal.SIGXCPU, -CPU_SIGNAL):
        # The kernel's own limit came before the supervisor's check, which did not run for two seconds; or the code
        # had removed the handler of the timer.
        message = f"CPU time limit of {limit_cpu_s:g} s reached"
        return Status.TIMEOUT, ToolError(type="TimeoutError", message=message, traceback="")
    if code != 0 or left is None:
        return _death(code, ending)
    if left.status is Status.OK:
        return left.status, None
    return left.status, ToolError(type=left.error, message=left.message, traceback=left.traceback)


def _death(code: int, ending: Ending) -> tuple[Status, ToolError]:
    how = how_it_died(code) if code else "ended without a result"
    return Status.CRASH, ToolError(
        type="InterpreterDied", message=f"the interpreter died: {how}", traceback=""
    )


def how_it_died(code: int) -> str:
    """Describe an exit code.

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
        return f"{error.type}: {_shown(error.message, how)}"  # the traceback depends on the clock
    return _shown(error.traceback, how)


def _shown(text: str, how: Reading) -> str:
    """Hide the call's temporary folder and, when deterministic, addresses."""
    if not text:
        return text
    if how.folder in text:
        text = text.replace(how.folder, SHOWN_FOLDER)
    if how.deterministic and "at 0x" in text:
        text = _ADDRESS.sub("at 0x0", text)
        if "dropped] ...\n" in text:
            text = _CUT_ADDRESS.sub("at 0x0", text)
    return text


def _seconds(reported: float | None, otherwise: float, most: float) -> float:
    """Return a time that the child measured if it is possible, and the supervisor's value otherwise."""
    return reported if reported is not None and 0.0 <= reported <= most else otherwise
