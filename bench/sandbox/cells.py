"""`session_cells` and `deadline_excess_s`: the cost of a cell, and the time that code survives its limit."""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from records.tool_call import Limits, ToolCall
from sandbox import Sandbox
from sandbox.child import runner

CELL = "x += 1\nx"
STUBBORN = "while True:\n    try:\n        while True: sum(range(99))\n    except BaseException: pass"
LIMIT_S = 0.5


def session_cells(sandbox: Sandbox, repeats: int) -> dict[str, float]:
    """Milliseconds of one more cell of a warm session, and the cost of the same code over a bare socket.

    `bare_ms` is a socket round trip to a process that runs the cell and returns the value of its last expression;
    `bare_text_ms` is the same with one `exec` of the text and no value. They alternate with the sandbox in runs of
    fifty. Both processes are forked beforehand: a later fork would charge copied pages to the sandbox.
    """
    limits = Limits(cpu_s=5, wall_s=60)
    cells: list[float] = []
    bare: list[float] = []
    text: list[float] = []
    with _bare_process(has_value=True) as with_value, _bare_process(has_value=False) as without:
        sandbox.run(ToolCall(id="first", code="x = 0", session="bench", limits=limits))
        for begin in range(0, repeats, 50):
            for index in range(begin, begin + 50):
                start = time.perf_counter()
                sandbox.run(ToolCall(id=f"cell-{index}", code=CELL, session="bench", limits=limits))
                cells.append(1000 * (time.perf_counter() - start))
            bare += _bare_ms(with_value, 50)
            text += _bare_ms(without, 50)
        sandbox.close_session("bench")
    p50, p50_bare, p50_text = (statistics.median(values) for values in (cells, bare, text))
    return {
        "p50_ms": p50,
        "p95_ms": sorted(cells)[len(cells) * 95 // 100],
        "bare_ms": p50_bare,
        "bare_text_ms": p50_text,
        "ratio": p50 / p50_bare,
        "ratio_to_text": p50 / p50_text,
    }


@contextmanager
def _bare_process(*, has_value: bool) -> Iterator[socket.socket]:
    """The socket of a forked process that runs the code it receives."""
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        near.close()
        _serve_bare(far, has_value)
        os._exit(0)
    far.close()
    try:
        yield near
    finally:
        near.close()
        os.waitpid(pid, 0)


def _bare_ms(link: socket.socket, repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        link.send(CELL.encode())
        link.recv(100)
        times.append(1000 * (time.perf_counter() - start))
    return times


def _serve_bare(link: socket.socket, has_value: bool) -> None:
    scope: dict[str, object] = {"x": 0}
    while code := link.recv(4096):
        if has_value:
            body, last = runner.compile_cell(code.decode(), "<cell>")
            exec(body, scope)
            link.send(repr(eval(last, scope) if last else None).encode())  # noqa: S307
        else:
            exec(code, scope)
            link.send(b"done")


def deadline_excess_s(sandbox: Sandbox, repeats: int) -> dict[str, float]:
    """Seconds that code which swallows its time limit lived beyond the limit: longest and median."""
    limits = Limits(wall_s=LIMIT_S, cpu_s=LIMIT_S)
    results = [sandbox.run(ToolCall(id=f"late-{k}", code=STUBBORN, limits=limits)) for k in range(repeats)]
    excess = [result.wall_s - LIMIT_S for result in results]
    return {"most_s": max(excess), "median_s": statistics.median(excess), "calls": repeats}
