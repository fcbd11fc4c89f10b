"""`execute`, `finish`, `describe`: run the code in a child and describe its end. The supervisor trusts no result."""

from __future__ import annotations

import ast
import atexit
import contextlib
import gc
import io
import linecache
import re
import resource
import signal
import sys
import threading
import time
import traceback
import types
from dataclasses import dataclass
from typing import Any

FILE_NAME = "<code>"
MAX_MESSAGE_CHARS = 4_000
MAX_TRACEBACK_CHARS = 12_000
CPU_SIGNAL = signal.SIGPROF
WALL_SIGNAL = signal.SIGUSR2


class SoftLimit(TimeoutError):
    """Raised inside the code when a time limit is reached, so that it ends with a traceback."""


@dataclass(slots=True)
class Deadline:
    """The time limit, if any, that has been announced to the running code."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    fired: str = ""

    def start(self, *, cpu_s: float, wall_s: float) -> None:
        """Begin a run. The fork server announces the wall limit, because the code may use SIGALRM itself."""
        self.cpu_s, self.wall_s, self.fired = cpu_s, wall_s, ""
        signal.setitimer(signal.ITIMER_PROF, cpu_s)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def install(self) -> None:
        """Handle both signals. The fork server calls it once; every child inherits the handlers."""
        signal.signal(CPU_SIGNAL, self._on_signal)
        signal.signal(WALL_SIGNAL, self._on_signal)

    def _on_signal(self, number: int, _frame: types.FrameType | None) -> None:
        kind, limit = ("CPU", self.cpu_s) if number == CPU_SIGNAL else ("wall", self.wall_s)
        self.fired = f"{kind} time limit of {limit:g} s reached"
        raise SoftLimit(self.fired)


def cpu_s() -> float:
    """Return the CPU seconds of this process.

    It uses getrusage: while a timer of CPU time is set, the kernel updates the process clock only at ticks.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def new_namespace() -> dict[str, Any]:
    """Return the globals of a fresh `__main__`."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module.__dict__


def compile_cell(source: str, name: str) -> tuple[types.CodeType, types.CodeType | None]:
    """Compile the statements, and a last expression separately.

    >>> [code is not None for code in compile_cell("x = 1", FILE_NAME)]
    [True, False]
    """
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = compile(tree, name, "exec", dont_inherit=True)
    if not isinstance(last, ast.Expr):
        return body, None
    flags = body.co_flags & _future_flags()
    return body, compile(ast.Expression(last.value), name, "eval", flags=flags, dont_inherit=True)


def _future_flags() -> int:
    import __future__

    flags = 0
    for feature in __future__.all_feature_names:
        flags |= getattr(__future__, feature).compiler_flag
    return flags


def cut(text: str, limit: int) -> tuple[str, int]:
    r"""Return head and tail of a long text, and the number of characters left out.

    >>> cut("abcdefgh", 4)
    ('ab\n... [4 dropped] ...\ngh', 4)
    """
    if len(text) <= limit:
        return text, 0
    half = limit // 2
    dropped = len(text) - 2 * half
    return f"{text[:half]}\n... [{dropped} dropped] ...\n{text[len(text) - half :]}", dropped


def lines_of(source: str) -> list[str]:
    r"""Split into lines as the compiler counts them; `splitlines` also splits inside strings, at U+2028 and others.

    >>> lines_of("a\u2028b\r\nc")
    ['a\u2028b\n', 'c']
    """
    *lines, last = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def execute(
    source: str, name: str, namespace: dict[str, Any], deadline: Deadline, output_bytes: int
) -> dict[str, Any]:
    """Run the code; return status, value, error and times as a JSON object."""
    wall_start, cpu_start = time.monotonic(), cpu_s()
    outcome: dict[str, Any] = {"status": "ok"}
    try:
        linecache.cache[name] = (len(source), None, lines_of(source), name)
        body, last = compile_cell(source, name)
        exec(body, namespace)
        if last is not None:
            value = eval(last, namespace)  # noqa: S307
            if value is not None:
                outcome["value"], outcome["value_dropped"] = cut(repr(value), output_bytes)
    except BaseException as error:
        outcome = describe(error, deadline)
    finally:
        outcome["wall_s"] = time.monotonic() - wall_start
        outcome["cpu_s"] = cpu_s() - cpu_start
    return outcome


_WRITES_ON_RELEASE = re.compile(
    r"__del__|\byield\b|\basync\b|open\b|Wrapper|Writer|FileIO|\bfinalize\b|\bexec\b|\beval\b|__import__|getattr"
)
"""Words of programs that can create a value that writes when it is released. Releasing all values takes a third of
the time of a sympy program, so only programs with such a word pay for it."""
_MAY_WRITE_ON_RELEASE = re.compile(
    "__del__|yield|async|open|Wrapper|Writer|FileIO|finalize|exec|eval|__import__|getattr"
)
"""The same words without boundaries, which the search finds faster."""


def writes_on_release(source: str) -> bool:
    """Return whether the release of the values of a program may write something.

    >>> [writes_on_release(text) for text in ("print(1)", "x.evalf()", "open('a')", "getattr(a, 'b')")]
    [False, False, True, True]
    """
    return bool(_MAY_WRITE_ON_RELEASE.search(source) and _WRITES_ON_RELEASE.search(source))


def finish(
    outcome: dict[str, Any],
    deadline: Deadline,
    num_exit_functions: int,
    namespace: dict[str, Any],
    source: str,
) -> dict[str, Any]:
    """End as an interpreter does: wait for threads, run exit functions, flush, release all values."""
    try:
        if threading.active_count() > 1:
            threading._shutdown()  # type: ignore[attr-defined]
        if atexit._ncallbacks() > num_exit_functions:  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        if not deadline.fired and writes_on_release(source):
            flush_streams()
            release(namespace)
    except BaseException as error:
        outcome = describe(error, deadline)
    return outcome


def release(namespace: dict[str, Any]) -> None:
    """Release the globals as the end of an interpreter does: private names, then the others, then cycles.

    A released value may still write: a stream flushes its buffer, `__del__` and the `finally` of a generator run.
    """
    for are_private in (True, False):
        for name in list(namespace):
            is_private = isinstance(name, str) and name.startswith("_") and not name.startswith("__")
            if is_private == are_private and name != "__builtins__":
                namespace[name] = None
    gc.collect()


def hold_to_limit(outcome: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    """Report the limit even if the code caught it: what the code printed since then depends on the clock."""
    if not deadline.fired or outcome["status"] == "timeout":
        return outcome
    times = {name: outcome[name] for name in ("wall_s", "cpu_s") if name in outcome}
    return describe(SoftLimit(deadline.fired), deadline) | times


def flush_streams() -> None:
    """Flush the standard streams, even if the code has replaced them."""
    for stream in {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}:
        try:
            if stream is not None:
                stream.flush()
        except Exception:
            continue


_IOBase = io.RawIOBase.__mro__[-2]
"""Base of every stream; the abstract base class `io.IOBase` answers `isinstance` more slowly."""


def flush_own_streams(namespace: dict[str, Any]) -> None:
    """Flush the streams that the code opened, at the end of a cell."""
    for value in list(namespace.values()):
        if issubclass(type(value), _IOBase):
            with contextlib.suppress(Exception):
                value.flush()


def new_output(number: int) -> io.TextIOWrapper:
    """Open a text stream on descriptor 1 or 2 that leaves the descriptor open when it closes."""
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def describe(error: BaseException, deadline: Deadline) -> dict[str, Any]:
    """Describe how an exception ends a run."""
    if deadline.fired:
        return _with_error("timeout", "TimeoutError", deadline.fired, user_traceback(error))
    if isinstance(error, SystemExit):
        return _describe_exit(error)
    status = "memory" if isinstance(error, MemoryError) else "error"
    text = user_traceback(error)
    if deadline.fired:  # the exception's own __str__ used up the time
        return _with_error("timeout", "TimeoutError", deadline.fired, text)
    return _with_error(status, type(error).__name__, _message(error), text)


def _describe_exit(error: SystemExit) -> dict[str, Any]:
    if error.code is None or error.code == 0:
        return {"status": "ok"}
    if not isinstance(error.code, int):
        print(_message(error), file=sys.stderr)
    return _with_error("error", "SystemExit", _message(error), "")


def _with_error(status: str, kind: str, message: str, text: str) -> dict[str, Any]:
    return {
        "status": status,
        "type": str(kind)[:200],
        "message": cut(message, MAX_MESSAGE_CHARS)[0],
        "traceback": cut(text, MAX_TRACEBACK_CHARS)[0],
    }


def _message(error: BaseException) -> str:
    try:
        if isinstance(error, SyntaxError) and error.lineno is not None:
            return f"{error.msg} (line {error.lineno})"
        return str(error)
    except Exception:
        return f"<{type(error).__name__} whose text cannot be made>"


def user_traceback(error: BaseException) -> str:
    """Format the traceback as Python prints it, with the frames of the user's code only."""
    try:
        summary = traceback.TracebackException.from_exception(error, compact=True, lookup_lines=False)
        _keep_user_frames(summary)
        return "".join(summary.format()).rstrip("\n")
    except Exception:
        return f"{type(error).__name__}: traceback cannot be made"


def _keep_user_frames(summary: traceback.TracebackException) -> None:
    chain: list[traceback.TracebackException | None] = [summary]
    while chain:
        link = chain.pop()
        if link is None:
            continue
        kept = [frame for frame in link.stack if frame.filename.startswith("<c")]
        link.stack = traceback.StackSummary.from_list(kept)
        chain += [link.__cause__, link.__context__, *(link.exceptions or ())]
        if link.exc_type is SoftLimit:
            link.exc_type = TimeoutError


def report_thread_error(arguments: threading.ExceptHookArgs) -> None:
    """Print the error of a thread, with the user's frames only."""
    if arguments.exc_type is SystemExit or arguments.exc_value is None:
        return
    name = arguments.thread.name if arguments.thread is not None else "?"
    print(f"Exception in thread {name}:\n{user_traceback(arguments.exc_value)}", file=sys.stderr)
