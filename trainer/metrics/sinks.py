"""`open_sinks`: metrics to TensorBoard and W&B, each in a separate process that cannot fail a run.

The trainer writes one JSON line per step into a non-blocking pipe. If the sink fails (missing package, exception, hang,
crash), the run continues and prints one line; the JSONL journal holds all metrics. A sink that does not finish in time
is killed.

`python -m trainer.metrics.sinks NAME FOLDER RUN STAGE FIRST_STEP` is the sink process; it ends with the pipe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from records.files import write_text

CLOSE_LIMIT_S = 20.0
"""Seconds that a sink may take to finish after the last step."""
PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""Sink -> package; the extra `sinks` installs all of them."""


# --- in the trainer --------------------------------------------------------------------------------------


class SinkProcess:
    """One sink. None of its methods raises; only `close` waits, up to a limit."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, close_limit_s: float = CLOSE_LIMIT_S
    ) -> None:
        self._name, self._log, self._close_limit_s = name, log, close_limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self.num_dropped = 0
        """Steps that the sink did not take; the JSONL journal holds them."""
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=output, stderr=output, bufsize=0,
                    # Ctrl-C is for the run, which saves a state and then closes the pipe.
                    start_new_session=True,
                )  # fmt: skip
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
        except OSError as error:
            self._give_up(f"did not start ({error})")

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the numbers of one step, unless the sink has ended."""
        if self._process is None:
            return
        if self._process.poll() is not None:
            self._give_up(f"ended with status {self._process.returncode}{self._last_words()}")
            return
        assert self._process.stdin is not None
        line = json.dumps({"step": step, "numbers": dict(numbers)}).encode() + b"\n"
        try:
            written = self._process.stdin.write(line)
        except OSError as error:
            self._give_up(f"stopped reading ({error}){self._last_words()}")
            return
        if written is None:
            self.num_dropped += 1
        elif written < len(line):
            self._give_up("reads too slowly")

    def close(self) -> None:
        """Close the pipe and wait, up to a limit, until the sink has finished."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            status = process.wait(self._close_limit_s)
        except subprocess.TimeoutExpired:
            self._give_up(f"did not finish within {self._close_limit_s:.0f} s and was stopped")
            return
        self._process = None
        if status:
            self._report(f"ended with status {status}{self._last_words()}")
        elif self.num_dropped:
            self._report(f"left out {self.num_dropped} steps, because it read too slowly")

    def _give_up(self, why: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        self._report(f"{why}; it gets no further metrics")

    def _report(self, what: str) -> None:
        print(f"sink {self._name} {what}. The run continues; its metrics are in JSONL.", flush=True)

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return f": {lines[-1][:200]}" if lines else ""
        return ""


class Sinks:
    """The sinks of one job."""

    def __init__(self, processes: Sequence[SinkProcess]) -> None:
        self._processes = processes

    def write(self, step: int, *records: Mapping[str, Any]) -> None:
        """Send the numeric values of some records to every sink."""
        numbers = {
            name: float(value)
            for record in records
            for name, value in record.items()
            if isinstance(value, int | float) and name != "step"
        }
        for process in self._processes:
            process.write(step, numbers)


@contextmanager
def open_sinks(
    names: Sequence[str],
    folder: Path,
    run: str,
    stage: str,
    first_step: int,
    packages: Mapping[str, str] = PACKAGES,
) -> Iterator[Sinks]:
    """Start the configured sinks of one job, for steps from `first_step` on.

    A sink whose package is missing is reported and skipped: a long run should not fail for its curves, and a run may
    resume on a machine without the package.
    """
    processes = []
    for name in names:
        if find_spec(packages[name]) is None:
            print(
                f"sink {name} is left out: the package {packages[name]} is not installed; "
                "pip install -c constraints.txt '.[sinks]' brings it",
                flush=True,
            )
            continue
        command = [
            sys.executable,
            "-m",
            "trainer.metrics.sinks",
            name,
            str(folder),
            run,
            stage,
            str(first_step),
        ]
        processes.append(SinkProcess(name, command, folder / "sinks" / f"{name}-{stage}.log"))
    try:
        yield Sinks(processes)
    finally:
        for process in processes:
            process.close()


# --- in the process of a sink ----------------------------------------------------------------------------


class Sink(Protocol):
    """Takes numbers by step."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files under `folder/tensorboard/<stage>`; steps that a resumed job repeats replace the old ones."""

    def __init__(self, folder: Path, run: str, stage: str, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard" / stage), purge_step=first_step)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class Wandb:
    """An offline run under `folder/wandb`; a resumed job reuses the id, which gives one run after a sync."""

    def __init__(self, folder: Path, run: str, stage: str, first_step: int) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        import wandb

        settings = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
        self._run = wandb.init(
            project="rstar2", name=f"{run}-{stage}", id=run_id(folder, stage), resume="allow", mode="offline",
            dir=str(folder), settings=settings,
        )  # fmt: skip

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


def run_id(folder: Path, stage: str) -> str:
    """Return the id of a run folder and stage, drawn once and stored there."""
    path = folder / "sinks" / f"wandb-{stage}.id"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, os.urandom(8).hex() + "\n")
    return path.read_text(encoding="utf-8").strip()


def main(name: str, folder: str, run: str, stage: str, first_step: str) -> None:
    """Read lines until the pipe closes."""
    kind = {"tensorboard": TensorBoard, "wandb": Wandb}[name]
    sink: Sink = kind(Path(folder), run, stage, int(first_step))
    for line in sys.stdin:
        record = json.loads(line)
        sink.write(record["step"], record["numbers"])
    sink.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
