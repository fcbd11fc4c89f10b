"""`grading_thread`, `graded_as_they_end`: grade rollouts one after the other while the sampler goes on.

A grader mostly waits: for a symbolic worker, a user's reward or the services of a benchmark. One thread keeps the order
of the calls, so that a reward with a state gets the rollouts as they ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from records.trajectory import Rollout

Graded = TypeVar("Graded")


@contextmanager
def grading_thread() -> Iterator[Executor]:
    """Yield the thread. If the block raises, calls that have not started are dropped."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="grading")
    try:
        yield thread
    finally:
        thread.shutdown(wait=True, cancel_futures=True)


def graded_as_they_end(rollouts: Iterable[Rollout], grade: Callable[[Rollout], Graded]) -> Iterator[Graded]:
    """Yield each rollout graded, in the order in which they ended.

    If the sampler raises, `grade` is still called for the rollouts that ended before.

    >>> names = dict(run="", checkpoint="", benchmark="", problem="a")
    >>> list(graded_as_they_end((Rollout(**names, sample=i) for i in (3, 1)), lambda rollout: -rollout.sample))
    [-3, -1]
    """
    with grading_thread() as grader:
        pending: deque[Future[Graded]] = deque()
        try:
            for rollout in rollouts:
                pending.append(grader.submit(grade, rollout))
                while pending and pending[0].done():
                    yield pending.popleft().result()
        finally:
            wait(pending)
        for future in pending:
            yield future.result()
