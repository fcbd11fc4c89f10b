"""A progress line: live in a terminal, now and then a plain line in a log (never a carriage return)."""

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
    """Counts units of one long job; `note` replaces the words at the end of the line."""

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
        rate = (self.done - self._first) / elapsed if elapsed > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else float("nan")
        print(
            f"{self.label} {self.done}/{self.total}  {rate:.2f}/s  {elapsed:.0f} s gone, {left:.0f} s left  {note}",
            file=sys.stderr,
            flush=True,
        )
