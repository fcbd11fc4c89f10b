"""Sinks: for every failure of a sink the run continues without delay and prints one line."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from trainer.metrics.sinks import SinkProcess, Sinks, open_sinks, run_id

RAISES = "raise RuntimeError('no disk for curves')"
RAISES_LATER = "import sys; sys.stdin.readline(); raise RuntimeError('no disk for curves')"
HANGS = "import time; time.sleep(600)"
WRITES = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"


def a_sink(tmp_path: Path, code: str, *arguments: str) -> SinkProcess:
    return SinkProcess("wandb", [sys.executable, "-c", code, *arguments], tmp_path / "sink.log")


def test_a_sink_gets_every_number_of_every_step(tmp_path: Path) -> None:
    process = a_sink(tmp_path, WRITES, str(tmp_path / "out"))
    sinks = Sinks([process])
    sinks.write(1, {"accuracy": 0.5, "stage": "rl1", "step": 1}, {"step_s": 2.0})
    sinks.write(2, {"accuracy": 1})
    process.close()
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert lines == [
        {"step": 1, "numbers": {"accuracy": 0.5, "step_s": 2.0}},
        {"step": 2, "numbers": {"accuracy": 1.0}},
    ]


@pytest.mark.parametrize("code", [RAISES, RAISES_LATER])
def test_a_sink_that_raises_is_reported_once_and_fails_nothing(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = a_sink(tmp_path, code)
    sinks = Sinks([process])
    sinks.write(1, {"accuracy": 0.5})
    assert process._process is not None
    process._process.wait()
    for step in range(2, 20):
        sinks.write(step, {"accuracy": 0.5})
    process.close()
    (line,) = capsys.readouterr().out.splitlines()
    assert "no disk for curves" in line
    assert "The run continues" in line


def test_a_sink_that_hangs_blocks_no_step_and_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = SinkProcess("wandb", [sys.executable, "-c", HANGS], tmp_path / "sink.log", close_limit_s=0.2)
    sinks = Sinks([process])
    numbers = {f"metric_{i}": float(i) for i in range(100)}
    for step in range(200):
        sinks.write(step, numbers)
    child = process._process
    process.close()
    assert "wandb" in capsys.readouterr().out
    assert child is None or child.poll() is not None


def test_a_sink_that_cannot_start_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = SinkProcess("wandb", [str(tmp_path / "absent")], tmp_path / "sink.log")
    process.write(1, {})
    process.close()
    assert "did not start" in capsys.readouterr().out


def test_a_sink_whose_package_is_missing_is_left_out_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_sinks(["wandb"], tmp_path, "r", "rl1", 1, packages={"wandb": "no_such_package"}) as sinks:
        sinks.write(1, {"accuracy": 0.5})
    (line,) = capsys.readouterr().out.splitlines()
    assert "left out" in line
    assert "[sinks]" in line


def test_the_id_of_a_run_is_the_same_when_it_resumes(tmp_path: Path) -> None:
    first = run_id(tmp_path, "rl1")
    assert run_id(tmp_path, "rl1") == first
    assert run_id(tmp_path, "rl2") != first


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_the_real_sinks_accept_a_run_and_its_resumption(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only if the extra `sinks` is installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed (extra sinks)")
    for first in (1, 3):
        with open_sinks([name], tmp_path, "r", "rl1", first) as sinks:
            for step in range(first, first + 3):
                sinks.write(step, {"accuracy": 0.1 * step})
    assert capsys.readouterr().out == "", (tmp_path / "sinks" / f"{name}-rl1.log").read_text()
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(tmp_path / "tensorboard" / "rl1"))
        events.Reload()
        assert [event.step for event in events.Scalars("accuracy")] == [1, 2, 3, 4, 5]
    else:
        runs = list((tmp_path / "wandb").glob("offline-run-*"))
        assert len(runs) == 2
        assert {run.name.rsplit("-", 1)[1] for run in runs} == {run_id(tmp_path, "rl1")}
