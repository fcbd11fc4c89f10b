"""Worker processes: they answer, are killed at the limit, and restart."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from verifier.graders.workers import Reply, Worker, read_line


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.close()


def test_a_worker_compares_what_the_parser_cannot_read(worker: Worker) -> None:
    assert worker.ask("equal", r"\int_0^1 2x dx", "1", limit_s=60).value is True
    assert worker.ask("equal", r"\int_0^1 2x dx", "2", limit_s=60).value is False


def test_infinite_sums_and_limits_are_compared_by_the_worker(worker: Worker) -> None:
    assert (
        worker.ask("equal", r"\sum_{n=1}^\infty \frac{1}{n^2}", r"\frac{\pi^2}{6}", limit_s=60).value is True
    )
    assert worker.ask("equal", r"\lim_{x\to 0} \frac{\sin x}{x}", "2", limit_s=60).value is False


def test_a_worker_is_killed_at_the_limit_and_restarts(worker: Worker) -> None:
    assert worker.ask("math_verify", "3", r"\boxed{(10^8)!}", limit_s=0.3).timed_out
    assert worker.ask("math_verify", "3", r"\boxed{3}", limit_s=60).value is True


def test_a_worker_killed_from_outside_is_noticed_at_once() -> None:
    """A kill from outside, such as by the system's memory killer: the answer is lost at once, not at the limit.

    The fork that computes holds no end of the reply pipe and ends with its worker.
    """
    worker = Worker()
    worker.start()
    assert worker._process is not None
    pid = worker._process.pid
    (fork,) = _children(pid)
    killed_at: list[float] = []

    def kill() -> None:
        killed_at.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    threading.Timer(0.5, kill).start()
    reply = worker.ask("math_verify", "3", r"\boxed{(10^8)!}", limit_s=60)
    assert time.monotonic() - killed_at[0] < 10  # the limit is 65; it takes milliseconds
    assert reply == Reply(failed="worker killed from outside")
    assert _ends(fork)
    assert worker.ask("math_verify", "3", r"\boxed{3}", limit_s=60).value is True
    worker.close()


def test_a_killed_child_is_noticed_even_while_its_own_child_holds_the_pipe() -> None:
    command = [
        sys.executable,
        "-c",
        "import os, time\nif os.fork():\n print('up', flush=True)\ntime.sleep(60)",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    fd = process.stdout.fileno()
    try:
        assert read_line(fd, 60, process.pid) == b"up\n"
        process.kill()
        assert read_line(fd, 60, process.pid) == b""
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _ends(pid: int) -> bool:
    """Is the process gone, or a zombie that nobody has collected, within ten seconds?"""
    for _ in range(200):
        status = Path(f"/proc/{pid}/stat")
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_an_error_inside_is_a_reply(worker: Worker) -> None:
    assert worker.ask("nonsense", "3", "3", limit_s=60).value is None


def test_close_leaves_no_process_behind() -> None:
    worker = Worker()
    worker.ask("equal", "1", "1", limit_s=60)
    process = worker._process
    assert process is not None
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
