"""The progress line in a log, and a stop between two steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.jobs.progress import Progress


def test_a_log_gets_complete_lines_at_the_start_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress.show("rl1", 10, 4) as progress:
        for _ in range(6):
            progress.advance(note="acc 0.5")
    written = capsys.readouterr().err
    lines = written.splitlines()
    assert "\r" not in written
    assert lines[0].startswith("rl1 5/10 ")
    assert lines[0].endswith("acc 0.5")
    assert lines[-1].startswith("rl1 10/10 ")
    assert len(lines) == 2


def test_no_progress_line_holds_nan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for total, done in ((10, 10), (10, 0), (0, 0)):
        with Progress.show("eval", total, done):
            pass
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert not [line for line in lines if "nan" in line or "inf" in line]


ENDLESS_STEPS = """
import sys, time
from trainer.jobs.interrupt import StopSignal
stop = StopSignal()
print("ready", flush=True)
for step in range(100_000):
    time.sleep(0.01)
    if stop.requested:
        print("saved", flush=True)
        if sys.argv[1] == "polite":
            stop.leave()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_step_end_and_leaves_with_its_status(number: int, project_root: Path) -> None:
    command = [sys.executable, "-c", ENDLESS_STEPS, "polite"]
    with subprocess.Popen(command, cwd=project_root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        assert process.stdout.read() == "saved\n"
        assert process.wait() == 128 + number


def test_a_second_signal_ends_the_process_at_once(project_root: Path) -> None:
    command = [sys.executable, "-c", ENDLESS_STEPS, "stubborn"]
    with subprocess.Popen(command, cwd=project_root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == "saved\n"
        os.kill(process.pid, signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 128 + signal.SIGTERM
