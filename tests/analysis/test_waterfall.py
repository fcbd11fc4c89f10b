"""Where the CPU-seconds of a run went, from the lines that its jobs left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.report.waterfall import read_usage, waterfall
from records.errors import ConfigError
from records.run_folder import RunFolder
from records.usage import VARIABLE


def leave_usage(run: Path, job: str) -> None:
    """A job of that name, which does nothing."""
    code = f"from records.usage import end_of_imports, record_usage; record_usage({job!r}); end_of_imports()"
    environment = {**os.environ, VARIABLE: str(RunFolder(run).usage)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_each_job_writes_a_line_and_its_last_one_counts(tmp_path: Path) -> None:
    for job in ("sft", "rl1", "sft"):
        leave_usage(tmp_path, job)
    first, second = read_usage(tmp_path)
    assert (first.job, second.job) == ("rl1", "sft")
    assert first.cpu_s >= (first.import_cpu_s or 0.0) > 0.0
    head, *rows, total = waterfall([first, second])
    assert len({len(line) for line in (head, *rows, total)}) == 1
    assert total.startswith("sum")


def test_a_run_without_a_log_and_a_torn_line_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        read_usage(tmp_path)
    log = RunFolder(tmp_path).usage
    log.parent.mkdir()
    log.write_text('{"job": "sft"', encoding="utf-8")
    with pytest.raises(ConfigError, match="remove the line"):
        read_usage(tmp_path)
