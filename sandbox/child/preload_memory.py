"""`rehearse` and `lay_out_memory`: calls that a fork server runs before it serves, so that forks copy little memory.

The interpreter specialises code, fills caches and assigns version tags as it runs. Each such write in a child copies
a page; all children share a write that happens here first. Trial children then show which pages every call writes.
"""

from __future__ import annotations

import array
import contextlib
import io
import json
import linecache
import os
import sys

from records.tool_call import Limits, ToolCall
from sandbox.child import kernel, random_streams, runner, written_pages
from sandbox.child.call import JOB_FD, Launch, new_job_file
from sandbox.layers import Layer
from sandbox.wire import decode_call, encode_call

ROUNDS = 12
"""The interpreter specialises a function after some calls of it; more rounds change nothing."""

_PLAIN = (
    "total = 0\nfor k in range(40):\n    total += k * 3\nprint(total)",
    "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint([f(k) for k in range(8)])\nf(5)",
    "import math\nvalues = {k: math.sqrt(k) for k in range(5)}\nprint(f'{values[4]:.2f}', max(values), end='')\nvalues",
    "from itertools import combinations\nprint(sum(1 for a, b in combinations(range(9), 2) if (a + b) % 3 == 0))",
    "class A:\n    def __init__(self, x):\n        self.x = x\nwhile True:\n    break\nprint(A(1).x, 'a,b'.split(','))",
    "table = {}\nprint(table['missing'])",
    "1 / 0",
    "import sys\nn, *rest = map(int, (sys.stdin.read() or '3 4').split())\nprint(n, rest, file=sys.stdout)",
)
_OF_MODULE = {
    "numpy": (
        "import numpy as np\na = np.arange(12).reshape(3, 4)\nprint(a.sum(), (a ** 2).mean(axis=0), a @ a.T)",
        "import numpy as np\nprint(int(np.sum(np.arange(50) ** 2)) + 7)\nnp.linalg.norm(np.ones(3))",
    ),
    "sympy": (
        "import sympy as sp\nx = sp.symbols('x')\nprint(sp.solve((x - 3) * (x - 8), x))",
        "from sympy import *\nx = symbols('x')\nprint(factor(x**2 - 5*x + 6), Rational(1, 3))",
    ),
}


def rehearse(modules: list[str], deadline: runner.Deadline) -> None:
    """Run the rehearsal calls; `modules` are the preloaded ones. The caller discards standard output."""
    programs = [*_PLAIN, *(program for name in modules for program in _OF_MODULE.get(name, ()))]
    main, stdin, lines = sys.modules["__main__"], sys.stdin, dict(linecache.cache)
    for _ in range(ROUNDS):
        for program in programs:
            sys.stdin = io.StringIO()
            with contextlib.redirect_stderr(io.StringIO()):
                _play(program, deadline)
    sys.modules["__main__"], sys.stdin = main, stdin
    linecache.cache.clear()
    linecache.cache.update(lines)


def _play(program: str, deadline: runner.Deadline) -> None:
    """Run one call without isolation and without a time limit."""
    payload = encode_call(ToolCall(id="rehearsal", code=program, limits=Limits()))
    _, limits, seed, code, _ = decode_call(payload)
    random_streams.reseed(seed)
    source = code.decode("utf-8", "surrogatepass")
    namespace = runner.new_namespace()
    outcome = runner.execute(source, runner.FILE_NAME, namespace, deadline, limits.output_bytes)
    outcome = runner.finish(outcome, deadline, sys.maxsize, namespace, source)
    runner.flush_streams()
    json.dumps(outcome).encode()


def lay_out_memory(launch: Launch, modules: list[str]) -> None:
    """Pin the pages that every call writes, and request huge pages elsewhere; each where the kernel offers it."""
    layers = launch.jail.plan.layers
    spared: set[int] = set()
    if Layer.EAGER_PAGES in layers:
        programs = next((_OF_MODULE[name] for name in reversed(modules) if name in _OF_MODULE), _PLAIN)
        spans, spared = written_pages.split(
            written_pages.written_by_most([_pages_of_trial(launch, code) for code in programs])
        )
    if Layer.HUGE_PAGES in layers:
        kernel.collapse_heap(spared)
    if spared:
        with contextlib.suppress(
            OSError
        ):  # the limit of locked memory is too low: pages are copied fault by fault
            kernel.pin(spans)


def _pages_of_trial(launch: Launch, program: str) -> set[int]:
    """Return the addresses of the pages that a call of `program` in a child writes."""
    spans = written_pages.private_spans()
    payload = encode_call(ToolCall(id="trial", code=program, limits=Limits()))
    job, out, err = new_job_file(), os.memfd_create("out"), os.memfd_create("err")
    os.write(job, payload)
    pid = os.fork()
    if pid == 0:
        _try(launch, len(payload), (job, out, err), spans)
    os.waitpid(pid, 0)
    found = array.array("Q", os.pread(job, os.fstat(job).st_size // 8 * 8, 0))
    for descriptor in (job, out, err):
        os.close(descriptor)
    return set(found)


def _try(
    launch: Launch, job_bytes: int, descriptors: tuple[int, int, int], spans: list[written_pages.Span]
) -> None:
    """Run the trial child; never returns. Standard input is the page map, which the jail would hide."""

    def report() -> None:
        found = array.array("Q", written_pages.own_pages(0, spans))
        os.ftruncate(JOB_FD, 0)
        os.pwrite(JOB_FD, found.tobytes(), 0)

    try:
        os.dup2(os.open("/proc/self/pagemap", os.O_RDONLY), 0)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        launch.run_call(0, job_bytes, descriptors, at_end=report)
    finally:
        os.ftruncate(descriptors[0], 0)
        os._exit(1)
