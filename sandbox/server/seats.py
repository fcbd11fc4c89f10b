"""`Seats` and `Cleaner`: the free seats, and the thread that empties their folders."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque

from sandbox.server.call_folders import Folders

REST_S = 1.0
"""Seconds without use for a seat whose fork server died: its last user may still be dying."""
RETRY_S = 2.0
"""Seconds between attempts to empty the folder of a seat that is out of use."""


class Cleaner:
    """A thread that empties folders. It never raises: it retries later what it cannot empty now.

    `descriptor` is readable when seats have become clean.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._orders: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._done: deque[int] = deque()
        self._failed: deque[tuple[float, int]] = deque()
        self.num_failures = 0
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._work, name="sandbox-cleaner", daemon=True)

    def clean(self, seat: int) -> None:
        """Schedule the folder of a seat for emptying."""
        if not self._thread.is_alive():  # started with the first seat that requires it
            self._thread = threading.Thread(target=self._work, name="sandbox-cleaner", daemon=True)
            self._thread.start()
        self._orders.put(seat)

    def take(self) -> list[int]:
        """Return seats that have become clean."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def retry(self, now: float) -> None:
        """Retry seats whose last attempt failed some time ago."""
        while self._failed and self._failed[0][0] <= now:
            self.clean(self._failed.popleft()[1])

    @property
    def num_unclean(self) -> int:
        """Return the number of seats out of use because their folders cannot be emptied."""
        return len(self._failed)

    def stop(self) -> None:
        """Finish the current folder and end."""
        if self._thread.is_alive():
            while not self._orders.empty():
                with contextlib.suppress(queue.Empty):
                    self._orders.get_nowait()
            self._orders.put(None)
            self._thread.join(timeout=5.0)

    def _work(self) -> None:
        while (seat := self._orders.get()) is not None:
            try:
                self._folders.clean(seat)
            except Exception:
                self.num_failures += 1
                self._failed.append((time.monotonic() + RETRY_S, seat))
                continue
            self._done.append(seat)
            os.eventfd_write(self.descriptor, 1)


class Seats:
    """The seats of stateless calls (numbers below `num_slots`) and of sessions (from there on)."""

    def __init__(self, folders: Folders, num_slots: int, num_sessions: int) -> None:
        self.folders = folders
        self.cleaner = Cleaner(folders)
        self._num_slots = num_slots
        self.for_calls = list(reversed(range(num_slots)))
        self.for_sessions = list(reversed(range(num_slots, num_slots + num_sessions)))
        self._resting: deque[tuple[float, int]] = deque()

    def release(self, seat: int) -> None:
        """Free a seat whose user is gone: at once when its folder is empty, else after the cleaner."""
        if self.folders.is_clean(seat):
            self._free(seat)
        else:
            self.cleaner.clean(seat)

    def rest(self, seat: int, now: float) -> None:
        """Keep a seat out of use for a while: its user may still be dying."""
        self._resting.append((now + REST_S, seat))

    def collect(self) -> list[int]:
        """Free the seats that the cleaner has finished, and return them."""
        done = self.cleaner.take()
        for seat in done:
            self._free(seat)
        return done

    def keep_house(self, now: float) -> None:
        """Release rested seats; retry those that could not be cleaned."""
        while self._resting and self._resting[0][0] <= now:
            self.release(self._resting.popleft()[1])
        self.cleaner.retry(now)

    def _free(self, seat: int) -> None:
        (self.for_calls if seat < self._num_slots else self.for_sessions).append(seat)
