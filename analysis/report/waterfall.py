"""`waterfall`: the CPU-seconds of a run by job and by kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from records.errors import ConfigError
from records.files import read_text
from records.run_folder import RunFolder
from records.stored import first_problem
from records.usage import JOB_SERVER, SNAKEMAKE, Usage

_HEAD = ("job", "wall s", "CPU s", "imports", "own user", "own kernel", "sandbox user", "sandbox kernel")


def read_usage(run: Path) -> list[Usage]:
    """Return the last record of each job, in the order in which the jobs ended.

    Raises:
        ConfigError: the run has no log of usage, or a line of it is no record.
    """
    log = RunFolder(run).usage
    last: dict[str, Usage] = {}
    for line in read_text(log).splitlines():
        try:
            usage = TypeAdapter(Usage).validate_json(line)
        except ValidationError as error:
            raise ConfigError(f"{log}: {first_problem(error)}; remove the line {line[:40]!r}") from None
        last[usage.job] = usage
    return sorted(last.values(), key=lambda usage: usage.ended_unix_s)


def waterfall(jobs: Sequence[Usage]) -> list[str]:
    """Return one line for each job, a line of sums, and the CPU time of Snakemake and of the job servers.

    The jobs are children of Snakemake and of the servers, so only the own processes of these count.
    """
    rows = [_cells(usage, own_only=usage.job.startswith((SNAKEMAKE, JOB_SERVER))) for usage in jobs]
    columns = list(zip(*(row[1] for row in rows), strict=True))
    rows.append(("sum", [sum(column) for column in columns]))
    width = max(len(name) for name, _ in rows)
    lines = [f"{_HEAD[0]:<{width}}" + "".join(f"{title:>16}" for title in _HEAD[1:])]
    lines += [f"{name:<{width}}" + "".join(f"{value:16.1f}" for value in values) for name, values in rows]
    return lines


def _cells(usage: Usage, *, own_only: bool) -> tuple[str, list[float]]:
    children = (0.0, 0.0) if own_only else (usage.children_user_cpu_s, usage.children_kernel_cpu_s)
    imports = usage.import_cpu_s or 0.0
    own = (usage.user_cpu_s, usage.kernel_cpu_s)
    return usage.job, [usage.wall_s, sum(own) + sum(children), imports, *own, *children]
