"""`record_usage`: appends the CPU-seconds of each job of a run to a log on which nothing depends.

Snakemake names the log in the environment of its jobs; a command outside a run writes no line. These numbers vary
with the clock, so they enter no params, no digest and no manifest.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from records.stored import Stored

SNAKEMAKE = "snakemake"
"""Name of the job that starts the others."""
JOB_SERVER = "job server"
"""First words of the name of a process that forks jobs (`records.job_server`)."""
VARIABLE = "RSTAR2_USAGE"
"""Environment variable with the path of the log."""
_NAMING = ("--name", "--stage", "--checkpoint", "--origin", "--seed")
"""Options that distinguish two jobs of one command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Stored):
    """Cost of one job. Children count once they have ended: the sandbox with its calls, and verifier workers."""

    job: str
    ended_unix_s: float
    wall_s: float
    import_cpu_s: float | None
    """CPU-seconds of the interpreter and of modules up to torch's first setting; None without torch."""
    user_cpu_s: float
    """CPU-seconds of the process itself, imports included."""
    kernel_cpu_s: float
    children_user_cpu_s: float
    children_kernel_cpu_s: float

    @property
    def cpu_s(self) -> float:
        return self.user_cpu_s + self.kernel_cpu_s + self.children_user_cpu_s + self.children_kernel_cpu_s


_import_cpu_s: list[float] = []


def end_of_imports() -> None:
    """Record the CPU time that this process has used so far; the first call counts."""
    if not _import_cpu_s:
        _import_cpu_s.append(time.process_time())


def record_usage(job: str | None = None) -> None:
    """Append a `Usage` to the log when the process ends; without a log in the environment, do nothing.

    Args:
        job: name of the job; by default from the command line (`job_of`).
    """
    atexit.register(partial(append_usage, job or job_of(sys.argv), time.time()))


def job_of(arguments: Sequence[str]) -> str:
    """Return the package, the command, and the options that distinguish two jobs of one command.

    >>> job_of(["trainer/__main__.py", "rl", "--stage", "1", "--runtime", "results/tiny/runtime.json"])
    'trainer rl 1'
    """
    words = [Path(arguments[0]).parent.name, *arguments[1:2]]
    words += [Path(value).name for option, value in pairwise(arguments) if option in _NAMING]
    return " ".join(words)


def append_usage(job: str, began: float, import_cpu_s: float | None = None) -> None:
    """Append what this process has used so far to the log in the environment, if it names one.

    Args:
        job: its name.
        began: clock time in seconds.
        import_cpu_s: CPU time of the imports; by default what `end_of_imports` noted.
    """
    if VARIABLE not in os.environ:
        return
    log = Path(os.environ[VARIABLE])
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    usage = Usage(
        job=job,
        ended_unix_s=time.time(),
        wall_s=time.time() - began,
        import_cpu_s=import_cpu_s or next(iter(_import_cpu_s), None),
        user_cpu_s=own.ru_utime,
        kernel_cpu_s=own.ru_stime,
        children_user_cpu_s=children.ru_utime,
        children_kernel_cpu_s=children.ru_stime,
    )
    line = json.dumps(asdict(usage)) + "\n"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        # One write of a short line: lines of several jobs do not mix.
        with log.open("ab", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        print(f"note: {log}: {error.strerror}; the CPU time of {job} is not recorded", file=sys.stderr)
