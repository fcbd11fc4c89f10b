"""`Worker` and `Pool`: worker processes with a time limit, for the symbolic engine and the checks of IFEval.

A worker is a child process that imports its engine once and keeps a fork of itself to compute. It waits for the fork
with its own clock, kills it at the limit and forks another. The asking process has a later limit. Any thread may ask,
because no signals or alarms are used. Workers start at first use, end with the pool, and end by themselves when the
asking process closes its end of the pipe.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import os
import queue
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from verifier.graders.policy import CASE_LIMIT_S

SYMBOLIC, INSTRUCTIONS = "symbolic", "instructions"
ENGINES = {SYMBOLIC: "verifier.graders.symbolic", INSTRUCTIONS: "verifier.ifeval.engine"}
"""Engine of a worker: a module with `OPERATIONS` (name -> function of gold and answer) and `warm_up`."""
START_LIMIT_S = 60.0
"""Limit for importing an engine on a loaded machine; not charged to a case."""
BACKSTOP_S = 5.0
"""Additional time before the asking process gives up on the worker."""
MEMORY_BYTES = 3 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Reply of a worker: `value`, or `error`, or neither when it was killed at the limit."""

    value: bool | str | None = None
    error: str = ""
    """The engine could not read or compare the answer."""
    failed: str = ""
    """No worker could start, or another process killed it: a failure of the infrastructure, not of the answer."""
    timed_out: bool = False


class Worker:
    """One child process. Threads must not share it; a `Pool` hands it out."""

    def __init__(self, engine: str = SYMBOLIC) -> None:
        self._engine = engine
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, op: str, gold: str, answer: str, limit_s: float = CASE_LIMIT_S) -> Reply:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            request = {"op": op, "gold": gold, "answer": answer, "limit_s": limit_s}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = read_line(process.stdout.fileno(), limit_s + BACKSTOP_S, process.pid)
        except OSError as error:
            self.close()
            return Reply(failed=f"worker died: {error}")
        if not line:  # the computing fork has its own limits, and its end is an ordinary reply
            self.close()
            return Reply(
                failed="worker killed from outside" if line is not None else "worker does not answer"
            )
        return Reply(**json.loads(line))

    def start(self) -> None:
        """Start the process unless it is running."""
        self._started()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._owner == os.getpid():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner != os.getpid():
            # A fork copied this object; the child process belongs to the parent.
            self._process = None
        if self._process is not None and self._process.poll() is None:
            return self._process
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        process = subprocess.Popen(
            [sys.executable, "-m", "verifier.graders.workers", self._engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdout is not None
        if read_line(process.stdout.fileno(), START_LIMIT_S, process.pid) != b"ready\n":
            process.kill()
            process.wait()
            raise RuntimeError(f"the worker of {self._engine} did not start: is its package installed?")
        self._process, self._owner = process, os.getpid()
        return process


def read_line(fd: int, limit_s: float, pid: int | None = None) -> bytes | None:
    """Read one line; return None at the limit, and empty bytes when the other end is closed.

    Args:
        fd: the reading end of a pipe.
        limit_s: seconds to wait for the whole line.
        pid: the child that writes the line. Its death ends the wait even if a descendant holds the pipe open.
    """
    deadline = time.monotonic() + limit_s
    data = b""
    with selectors.DefaultSelector() as selector, _death_of(pid) as death:
        selector.register(fd, selectors.EVENT_READ)
        if death is not None:
            selector.register(death, selectors.EVENT_READ)
        while not data.endswith(b"\n"):
            left = deadline - time.monotonic()
            ready = [key.fd for key, _ in selector.select(left)] if left > 0 else []
            if not ready:
                return None
            piece = os.read(fd, 1 << 16) if fd in ready else b""
            if not piece:
                return b""
            data += piece
    return data


@contextmanager
def _death_of(pid: int | None) -> Iterator[int | None]:
    """Yield a descriptor that becomes readable when a child ends; None where there is none (before Linux 5.3)."""
    death = None
    if pid is not None and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            death = os.pidfd_open(pid)
    try:
        yield death
    finally:
        if death is not None:
            os.close(death)


class Pool:
    """A fixed number of lazily started workers; safe to use from many threads."""

    def __init__(self, num_workers: int = 1, engine: str = SYMBOLIC) -> None:
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._all = [Worker(engine) for _ in range(num_workers)]
        for worker in self._all:
            self._idle.put(worker)

    def ask(self, op: str, gold: str, answer: str, limit_s: float = CASE_LIMIT_S) -> Reply:
        worker = self._idle.get()
        try:
            return worker.ask(op, gold, answer, limit_s)
        except (OSError, RuntimeError) as error:
            return Reply(failed=str(error))
        finally:
            self._idle.put(worker)

    def start(self) -> None:
        """Start every worker now, so that no case waits for a start."""
        for worker in self._all:
            worker.start()

    def close(self) -> None:
        for worker in self._all:
            worker.close()


_lock = threading.Lock()
_shared: dict[tuple[int, str], Pool] = {}
"""By process and engine."""


def shared_pool(engine: str = SYMBOLIC) -> Pool:
    """Return the pool of this process for an engine; a forked child gets its own."""
    key = os.getpid(), engine
    with _lock:
        if key not in _shared:
            _shared[key] = Pool(engine=engine)
            atexit.register(_shared[key].close)
        return _shared[key]


def close() -> None:
    """Stop the shared workers; the next question starts them again."""
    with _lock:
        for (owner, _), pool in _shared.items():
            if owner == os.getpid():
                pool.close()


ENGINE_DIED = "the engine died"


class _Fork:
    """The fork that computes, inside the worker."""

    def __init__(self, engine: ModuleType, inherited: int) -> None:
        """Take `inherited`, the worker's reply pipe: a copy in the fork would outlive the worker and hide its end."""
        request_read, self._request = os.pipe()
        self._reply, reply_write = os.pipe()
        worker = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            for fd in (self._request, self._reply, inherited):
                os.close(fd)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # only the worker reads the questions
            _die_with(worker)
            _compute(engine, request_read, reply_write)
        os.close(request_read)
        os.close(reply_write)

    def ask(self, line: bytes, limit_s: float) -> Reply:
        try:
            os.write(self._request, line)
        except OSError:
            return Reply(error=ENGINE_DIED)
        answer = read_line(self._reply, limit_s)
        if answer is None:
            return Reply(timed_out=True)
        return Reply(**json.loads(answer)) if answer else Reply(error=f"{ENGINE_DIED}: memory or a crash")

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._request)
        os.close(self._reply)


_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends, so that no orphan keeps computing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _compute(engine: ModuleType, requests: int, replies: int) -> None:
    """Run the fork; never returns."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            reply = _answer(engine, json.loads(line))
            os.write(replies, json.dumps({"value": reply.value, "error": reply.error}).encode() + b"\n")
    os._exit(0)


def _answer(engine: ModuleType, request: dict[str, Any]) -> Reply:
    try:
        return Reply(value=engine.OPERATIONS[request["op"]](request["gold"], request["answer"]))
    except Exception as error:  # an exception of the engine is the reply, never a score
        return Reply(error=f"{type(error).__name__}: {error}"[:200])


def main() -> None:
    """Serve requests on standard input until it closes."""
    sys.setrecursionlimit(3000)
    replies = os.dup(1)
    os.dup2(2, 1)
    engine = importlib.import_module(ENGINES[sys.argv[1]])
    engine.warm_up()
    fork = _Fork(engine, replies)
    os.write(replies, b"ready\n")
    for line in sys.stdin.buffer:
        reply = fork.ask(line, json.loads(line)["limit_s"])
        if reply.timed_out or reply.error.startswith(ENGINE_DIED):
            fork.close()
            fork = _Fork(engine, replies)
        record = {"value": reply.value, "error": reply.error, "timed_out": reply.timed_out}
        os.write(replies, json.dumps(record).encode() + b"\n")
    fork.close()


if __name__ == "__main__":
    main()
