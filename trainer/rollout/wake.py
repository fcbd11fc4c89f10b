"""`Wake`: the one place where a rollout loop waits for events."""

from __future__ import annotations

import threading
import time


class Wake:
    """A clock and a flag that engines and tools raise from any thread.

    >>> wake = Wake()
    >>> wake.call()
    >>> wake.wait(None)
    """

    def __init__(self) -> None:
        self._happened = threading.Event()

    def now(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic()

    def call(self) -> None:
        """Record an event."""
        self._happened.set()

    def wait(self, timeout_s: float | None) -> None:
        """Return after an event since the last `wait`, or after `timeout_s`."""
        self._happened.wait(timeout_s)
        # Cleared before the loop looks: an event during the look ends the next wait at once.
        self._happened.clear()
