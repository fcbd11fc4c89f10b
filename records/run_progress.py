"""`RunProgress`: one line over all jobs of a Snakemake call, in the place of Snakemake's own lines.

Snakemake reports events through `logging`. Its whole log stays in .snakemake/log; warnings and errors, with the log of
a job that failed, stay on the screen.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

LOGGER = "snakemake.logging"
STREAM_HANDLER = "DefaultStreamHandler"
"""Name of Snakemake's handler that writes to the screen."""
LOG_EVERY_S, SCREEN_EVERY_S = 30.0, 1.0
_FIRST_ESTIMATE = 0.02
"""Share of the work before which no remaining time is shown."""
_FOLDED_EVENTS = (
    *("workflow_started", "run_info", "resources_info", "shellcmd"),
    *("job_info", "job_started", "job_finished", "progress"),
)
_FOLDED_TEXTS = ("Building DAG of jobs", "Assuming unrestricted", "Using shell", "Select jobs", "Execute ")
_EXPECTED_S: Mapping[str, float] = {
    "corpus": 50,
    "base": 5,
    "sft": 180,
    "rl1": 40,
    "rl2": 40,
    "rl3": 40,
    "hard": 10,
    "origin": 180,
    "arm": 60,
    "evaluate": 70,
    "evaluate_late": 40,
    "sampling_grid": 200,
    "score": 10,
    "sandbox_bench": 15,
    "draw_figures": 10,
}
"""Seconds of a job of tiny on two quiet cores, by rule. Only their ratios count; other rules take 3."""


def fold_lines() -> None:
    """Keep Snakemake's lines on jobs, rules and resources off the screen."""
    for handler in logging.getLogger(LOGGER).handlers:
        if handler.name == STREAM_HANDLER:
            handler.addFilter(_is_shown)


def _is_shown(record: logging.LogRecord) -> bool:
    if record.levelno > logging.INFO:
        return True
    return getattr(record, "event", None) not in _FOLDED_EVENTS and not str(record.msg).startswith(
        _FOLDED_TEXTS
    )


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that has started."""

    rule: str
    name: str
    """The rule with its wildcards."""
    log: Path | None
    began: float


class RunProgress(logging.Handler):
    """Counts the jobs of one call from Snakemake's events; writes from a thread of its own until the last job ends.

    Args:
        rules: rule of each job that will run.
        outcome: gives the result of a finished job in some words, from its rule and its name; empty for none.
        stream: terminal or file; a terminal shows one line that changes, a file a line every 30 s.
        clock: seconds.
    """

    def __init__(
        self,
        rules: Sequence[str],
        outcome: Callable[[str, str], str],
        *,
        stream: TextIO = sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(logging.INFO)
        self._rules, self._outcome, self._stream, self._clock = rules, outcome, stream, clock
        self._running: dict[int, RunningJob] = {}
        self._num_done, self._work_done = 0, 0.0
        self._began = clock()
        self._ended = threading.Event()
        self._is_screen = stream.isatty()

    def start(self) -> None:
        """Listen to Snakemake and write until the last job or the logger ends."""
        # Before Snakemake's own handler, so that an error does not continue the line.
        logging.getLogger(LOGGER).handlers.insert(0, self)
        threading.Thread(target=self._write_lines, name="progress", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == "job_info":
            self._begin(record)
        elif event == "job_finished":
            self._finish(record.__dict__["job_id"])
        if record.levelno > logging.INFO:
            self._clear()

    def close(self) -> None:
        """Stop writing."""
        if not self._ended.is_set():
            self._ended.set()
            self._clear()
        super().close()

    def _begin(self, record: logging.LogRecord) -> None:
        fields = record.__dict__
        wildcards = [str(value) for value in dict(fields.get("wildcards") or {}).values()]
        logs = list(fields.get("log") or ())
        rule = fields["rule_name"]
        self._running[fields["jobid"]] = RunningJob(
            rule, "-".join([rule, *wildcards]), Path(logs[0]) if logs else None, self._clock()
        )

    def _finish(self, job_id: int) -> None:
        job = self._running.pop(job_id, None)
        if job is None or job.log is None:  # a target without a command
            return
        self._num_done += 1
        self._work_done += expected_s(job.rule)
        if words := self._outcome(job.rule, job.name):
            self._clear()
            self._write(f"{self._elapsed()} {job.name}: {words}\n")

    def line(self) -> str:
        """Return elapsed time, jobs, time left, and the last line of each running job's log."""
        head = f"{self._elapsed()} {self._num_done} of {len(self._rules)} jobs"
        left = time_left(
            done=self._work_done,
            running=[(expected_s(job.rule), self._clock() - job.began) for job in self._running.values()],
            total=sum(map(expected_s, self._rules)),
            elapsed=self._clock() - self._began,
        )
        if left is not None:
            head += f", about {duration(left)} left"
        jobs = [
            f"{job.name}: {note}" if (note := last_line(job.log)) else job.name
            for job in self._running.values()
        ]
        return " | ".join([head, *jobs])

    def _elapsed(self) -> str:
        return f"[{duration(self._clock() - self._began)}]"

    def _write_lines(self) -> None:
        every = SCREEN_EVERY_S if self._is_screen else LOG_EVERY_S
        while not self._ended.wait(every) and self._num_done < len(self._rules):
            if self._is_screen:
                columns = shutil.get_terminal_size().columns - 1
                self._write(f"\r\033[K{self.line()[:columns]}")
            else:
                self._write(self.line() + "\n")
        self._clear()

    def _clear(self) -> None:
        if self._is_screen:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the reader of a pipe has left; the run goes on
            self._ended.set()


def expected_s(rule: str) -> float:
    """Return the seconds of one job of a rule."""
    return _EXPECTED_S.get(rule, 3.0)


def time_left(
    *, done: float, running: Sequence[tuple[float, float]], total: float, elapsed: float
) -> float | None:
    """Seconds left at the pace so far; None while too little is done to measure the pace.

    Args:
        done: expected seconds of the finished jobs.
        running: expected and elapsed seconds of each running job.
        total: expected seconds of all jobs.
        elapsed: seconds since the start.

    >>> time_left(done=50.0, running=[(100.0, 50.0)], total=200.0, elapsed=60.0)
    60.0
    >>> time_left(done=0.0, running=[], total=200.0, elapsed=60.0)
    """
    share = (done + sum(min(spent, 0.95 * expected) for expected, spent in running)) / total
    return None if share < _FIRST_ESTIMATE else elapsed * (1.0 - min(share, 1.0)) / share


def duration(seconds: float) -> str:
    """Minutes and seconds.

    >>> duration(7.4), duration(187.0)
    ('0:07', '3:07')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def last_line(log: Path | None) -> str:
    """Return the last line of text that a job has written so far, single-spaced; empty when there is none.

    The facts that a job prints at its end, as a JSON object, are no text.
    """
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 400))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((" ".join(line.split()) for line in reversed(lines) if line.strip() and line[0] != "{"), "")
