"""`JobServer`: forks the jobs of a run from a process that has already made their imports.

The imports of torch and transformers cost a job 4 CPU-seconds, and a default run has 40 such jobs. Snakemake starts a
server with the first job (`start`). A job passes its arguments, environment and standard streams to the server
(`records.job_client`), which forks; the child runs `python -m PACKAGE` as the job would. Without a server, a job
imports by itself.

A child has its own process group and receives signals through its client, each of them once. It dies with its client
and with the server. No other user can enter the folder of the socket, and no sandboxed call opens sockets.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from records.garbage import collect_rarely
from records.job_client import LENGTH, STARTED, STATUS, STREAMS, VARIABLE, JobRequest
from records.usage import JOB_SERVER, append_usage

_PR_SET_PDEATHSIG = 1
_REQUEST_S = 10.0
"""Seconds within which a client must send its request."""
_WAIT_FOR_END_S = 10.0
_LIFELINE = 0
"""Standard input of a server; it ends when the process that started the server ends."""


def start(*packages: str) -> None:
    """Start a server of these packages for the children of this process; it ends with this process.

    Args:
        packages: each has a module `warm` with the imports that its jobs share.
    """
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="rstar2-jobs-")
        atexit.register(shutil.rmtree, os.environ[VARIABLE], ignore_errors=True)
    first, *others = (Path(os.environ[VARIABLE]) / package for package in packages)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(first))
        listener.listen(128)
        server = subprocess.Popen(
            [sys.executable, "-m", "records.job_server", str(listener.fileno()), *packages],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            # torch reads the first when it loads (config.options); the second keeps numpy from starting threads.
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_NUM_THREADS": "1"},
        )
    for other in others:
        other.symlink_to(first.name)
    atexit.register(_end, server)


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(_WAIT_FOR_END_S)
    except subprocess.TimeoutExpired:
        server.kill()


@dataclass(frozen=True, slots=True)
class _Job:
    """A child, and the connection of its client."""

    pid: int
    process: int
    """File descriptor of the child."""
    client: socket.socket


class JobServer:
    """Accepts jobs on `listener` until the lifeline ends, then waits for the last job."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._jobs: list[_Job] = []
        self._ready = selectors.DefaultSelector()
        self._ready.register(listener, selectors.EVENT_READ)
        self._ready.register(_LIFELINE, selectors.EVENT_READ)

    def serve(self) -> JobRequest | None:
        """Return None in the server, at its end; in each child return the request, which the caller runs."""
        while self._is_open or self._jobs:
            # One event at a time: handling it may close the descriptor of the next.
            ready = self._ready.select()[0][0].fd
            if ready == _LIFELINE:
                self._close()
            elif ready == self._listener.fileno():
                if request := self._accept():
                    return request
            elif job := next((job for job in self._jobs if job.process == ready), None):
                self._finish(job)
            elif job := next((job for job in self._jobs if job.client.fileno() == ready), None):
                self._forward(job)
        return None

    @property
    def _is_open(self) -> bool:
        return self._listener.fileno() >= 0

    def _close(self) -> None:
        self._ready.unregister(_LIFELINE)
        self._ready.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> JobRequest | None:
        """Fork one job; if that fails, its client imports by itself."""
        client, _ = self._listener.accept()
        try:
            request, streams = _receive(client)
            pid = os.fork()
        except (OSError, ValueError, TypeError) as error:
            print(f"note: job server: {error}; the job imports by itself", file=sys.stderr)
            client.close()
            return None
        if pid == 0:
            client.close()
            self._leave()
            _become(request, streams)
            return request
        for stream in streams:
            os.close(stream)
        job = _Job(pid, os.pidfd_open(pid), client)
        self._jobs.append(job)
        self._ready.register(job.process, selectors.EVENT_READ)
        self._ready.register(client, selectors.EVENT_READ)
        with contextlib.suppress(OSError):  # the loop notices a client that died meanwhile
            client.sendall(STARTED)
        return None

    def _finish(self, job: _Job) -> None:
        """Send the status of an ended child."""
        _, status = os.waitpid(job.pid, 0)
        with contextlib.suppress(OSError):
            job.client.sendall(STATUS.pack(status))
        self._jobs.remove(job)
        for end in (job.process, job.client):
            self._ready.unregister(end)
        os.close(job.process)
        job.client.close()

    def _forward(self, job: _Job) -> None:
        """Send a child the signals of its client; kill it when the client is gone."""
        try:
            numbers = job.client.recv(16)
        except OSError:
            numbers = b""
        for number in numbers or (signal.SIGKILL,):
            os.kill(job.pid, number)
        if not numbers:
            self._finish(job)

    def _leave(self) -> None:
        """Close the server's descriptors in a child."""
        self._ready.close()
        self._listener.close()
        for job in self._jobs:
            os.close(job.process)
            job.client.close()


def _receive(client: socket.socket) -> tuple[JobRequest, list[int]]:
    """Return a request and the standard streams of the client; OSError or ValueError if either is incomplete."""
    client.settimeout(_REQUEST_S)
    head, streams, _, _ = socket.recv_fds(client, LENGTH.size, len(STREAMS))
    if len(head) < LENGTH.size or len(streams) < len(STREAMS):
        raise ValueError("a request ended early")
    data = b""
    while len(data) < (length := LENGTH.unpack(head)[0]):
        part = client.recv(min(1 << 16, length - len(data)))
        if not part:
            raise ValueError("a request ended early")
        data += part
    client.settimeout(None)
    return JobRequest.from_bytes(data), streams


def _become(request: JobRequest, streams: list[int]) -> None:
    """Give this process the state of the client's process."""
    server = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:  # the server died before the kernel watched it
        os.kill(os.getpid(), signal.SIGKILL)
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for stream, number in zip(streams, STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # pyright: ignore[reportAttributeAccessIssue]
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = list(request.arguments)


def main(listener: str, *packages: str) -> None:
    """Import and serve; in a child, run the job."""
    began = time.time()
    # A signal to the whole process group reaches the jobs through their clients; the server ends by its lifeline.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    collect_rarely()
    server = JobServer(socket.socket(fileno=int(listener)))
    for package in packages:
        importlib.import_module(f"{package}.warm")
    gc.collect()
    gc.freeze()  # prevents collections in children from writing to shared pages
    import_cpu_s = time.process_time()
    if request := server.serve():
        runpy.run_module(request.package, run_name="__main__", alter_sys=True)
    else:
        append_usage(f"{JOB_SERVER} {' '.join(packages)}", began, import_cpu_s)


if __name__ == "__main__":
    main(*sys.argv[1:])
