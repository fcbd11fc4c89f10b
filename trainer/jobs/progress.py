"""`Progress`: a progress line, live in a terminal and an occasional plain line in a log (no carriage return)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

LOG_EVERY_S = 10.0


class Progress:
    """Counts units of one long job; `note` replaces the text at the end of the line."""

    def __init__(self, label: str, total: int, done: int = 0) -> None:
        self.label, self.total, self.done = label, total, done
        self._begin, self._first = time.monotonic(), done
        self._printed = float("-inf")
        self._rich: RichProgress | None = None
        self._task = None

    @classmethod
    @contextmanager
    def show(cls, label: str, total: int, done: int = 0) -> Iterator[Progress]:
        progress = cls(label, total, done)
        if not sys.stderr.isatty():
            yield progress
            progress._print()
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as rich:
            progress._rich, progress._task = rich, rich.add_task(label, total=total, completed=done, note="")
            yield progress

    def advance(self, count: int = 1, note: str = "") -> None:
        self.done += count
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, completed=self.done, note=note)
        elif time.monotonic() - self._printed >= LOG_EVERY_S:
            self._print(note)

    def _print(self, note: str = "") -> None:
        self._printed = time.monotonic()
        elapsed = self._printed - self._begin
        print(
            f"{self.label} {self.done}/{self.total}  {pace(self.done - self._first, self.total - self.done, elapsed)}  "
            f"{note}",
            file=sys.stderr,
            flush=True,
        )


def pace(done: int, left: int, elapsed_s: float) -> str:
    """Rate and remaining time; without a finished unit there is no rate, and without a unit left no time remains.

    >>> pace(2, 4, 10.0), pace(0, 4, 10.0), pace(0, 0, 0.0)
    ('0.20/s  10 s gone, 20 s left', '10 s gone', '0 s gone, 0 s left')
    """
    gone = f"{elapsed_s:.0f} s gone"
    if done <= 0 or elapsed_s <= 0:
        return gone if left > 0 else f"{gone}, 0 s left"
    rate = done / elapsed_s
    return f"{rate:.2f}/s  {gone}, {max(left, 0) / rate:.0f} s left"
