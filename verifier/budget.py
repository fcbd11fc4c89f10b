"""`budget`: one budget for all work on one answer: extraction, normalisation, parsing, comparison and their loops.

It counts steps of about a microsecond, so that a verdict does not depend on the load of the machine. CPU time of the
thread is a second bound, for work whose count is too low. A symbolic engine, which no counter can bound, runs in a
process that can be killed (`verifier.graders.workers`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MAX_STEPS = 400_000
"""Steps per answer. Real answers take hundreds to some ten thousands."""
MAX_CPU_S = 0.9
_LOOK_EVERY = 8_000
"""Steps between two checks of the clock."""


class TooHeavy(ValueError):
    """Reading or computing this would take too long."""


class _Meter:
    __slots__ = ("left", "next_look", "until")

    def __init__(self) -> None:
        self.left = MAX_STEPS
        self.next_look = MAX_STEPS - _LOOK_EVERY
        self.until = time.thread_time() + MAX_CPU_S

    def look(self) -> None:
        if self.left < 0:
            raise TooHeavy("passed the step budget of one answer")
        self.next_look = self.left - _LOOK_EVERY
        if time.thread_time() > self.until:
            self.left = -1
            raise TooHeavy("passed the CPU time of one answer")


class _Active(threading.local):
    meter: _Meter | None = None


_active = _Active()


@contextmanager
def budget() -> Iterator[None]:
    """Share one budget inside the block; an inner budget is the outer one.

    >>> with budget():
    ...     spend(MAX_STEPS + 1)
    Traceback (most recent call last):
        ...
    verifier.budget.TooHeavy: passed the step budget of one answer
    """
    if _active.meter is not None:
        yield
        return
    _active.meter = _Meter()
    try:
        yield
    finally:
        _active.meter = None


def spend(steps: int = 1) -> None:
    """Charge work to the budget of this thread, before the work.

    Raises:
        TooHeavy: the answer has used up its steps or its time; every later charge raises too.
    """
    meter = _active.meter
    if meter is None:
        return
    meter.left -= steps
    if meter.left < meter.next_look:
        meter.look()


def is_spent() -> bool:
    """Return whether the current answer has used up its budget."""
    return _active.meter is not None and _active.meter.left < 0


def used_s() -> float:
    """Return the CPU seconds that the current answer has used."""
    meter = _active.meter
    return 0.0 if meter is None else max(0.0, time.thread_time() - (meter.until - MAX_CPU_S))
