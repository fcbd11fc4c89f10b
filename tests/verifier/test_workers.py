"""Worker processes: they answer, are killed at the limit, and come back."""

import os
import signal
import threading

import pytest

from verifier.workers import Worker


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.close()


def test_a_worker_compares_what_our_parser_cannot_read(worker: Worker) -> None:
    assert worker.ask("equal", r"\int_0^1 2x dx", "1", limit_s=60).value is True
    assert worker.ask("equal", r"\int_0^1 2x dx", "2", limit_s=60).value is False


def test_sums_and_limits_without_end_are_compared_by_the_worker(worker: Worker) -> None:
    assert (
        worker.ask("equal", r"\sum_{n=1}^\infty \frac{1}{n^2}", r"\frac{\pi^2}{6}", limit_s=60).value is True
    )
    assert worker.ask("equal", r"\lim_{x\to 0} \frac{\sin x}{x}", "2", limit_s=60).value is False


def test_a_worker_is_killed_at_the_limit_and_answers_again(worker: Worker) -> None:
    assert worker.ask("math_verify", "3", r"\boxed{(10^8)!}", limit_s=0.3).timed_out
    assert worker.ask("math_verify", "3", r"\boxed{3}", limit_s=60).value is True


def test_a_worker_killed_from_outside_is_our_failure_and_no_score() -> None:
    """The memory killer of the machine, say: the answer it was at is as good as before."""
    worker = Worker()
    worker.start()
    assert worker._process is not None
    pid = worker._process.pid
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    reply = worker.ask("math_verify", "3", r"\boxed{(10^8)!}", limit_s=60)
    assert reply.failed
    assert (reply.error, reply.timed_out) == ("", False)
    assert worker.ask("math_verify", "3", r"\boxed{3}", limit_s=60).value is True
    worker.close()


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
