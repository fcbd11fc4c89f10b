"""The working folder of one long job: what it has done so far, so that a kill costs minutes, not the run.

Undeclared to the workflow (a failed job loses declared outputs). Holds a fingerprint of everything that decides
the result: equal, and the job resumes; different, and the old folder is moved aside and the job begins. States
are saved as `step-000120/` by rename; the newest that matches its digests wins.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from config.errors import ConfigError
from trainer.atomic import read_json, sha256_of, sync_folder, write_json

KEEP_STATES = 2
_INDEX = "index.json"


class WorkDir:
    """Open with `WorkDir.open`; hold it while the job runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @contextmanager
    def open(cls, path: Path, fingerprint: str) -> Iterator[WorkDir]:
        """Lock the folder, keep or set aside what is in it. Raises ConfigError while another process holds it."""
        path.mkdir(parents=True, exist_ok=True)
        lock_path = path.with_name(f"{path.name}.lock")
        with lock_path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another process works there; wait for it or stop it") from None
            _set_aside_if_other(path, fingerprint)
            yield cls(path)

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Let `write` fill a folder, then publish it as the state of `step`; older states but the last go."""
        final = self.path / f"step-{step:06d}"
        beside = self.path / f"step-{step:06d}.tmp"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        try:
            write(beside)
            files = {path.name: sha256_of(path) for path in sorted(beside.iterdir())}
            write_json(beside / _INDEX, {"step": step, "files": files})
            for name in files:
                _flush(beside / name)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        # A state never survives a power cut without the journal lines that lead to it.
        for journal in self.path.glob("*.jsonl"):
            _flush(journal)
        shutil.rmtree(final, ignore_errors=True)
        beside.replace(final)
        sync_folder(self.path)
        for old in self._states()[:-KEEP_STATES]:
            shutil.rmtree(old, ignore_errors=True)

    def newest(self) -> tuple[int, Path] | None:
        """Step and folder of the newest whole state; a damaged one is passed over, and said so."""
        for state in reversed(self._states()):
            try:
                index = read_json(state / _INDEX)
                if all(sha256_of(state / name) == wanted for name, wanted in index["files"].items()):
                    return int(index["step"]), state
            except (ConfigError, OSError, KeyError, AttributeError, TypeError):
                pass
            print(f"{state}: damaged, passed over", flush=True)
        return None

    def begin_attempt(self, step: int) -> None:
        """Note a start or resume at `step`; cut journals back to it, and let go of damaged states beyond it."""
        with (self.path / "attempts.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "unix_s": time.time(), "pid": os.getpid()}) + "\n")
        for journal in self.path.glob("*.jsonl"):
            if journal.name != "attempts.jsonl":
                _cut_journal(journal, step)
        for state in self._states():  # they would count among those kept, and push out the new ones
            if state.name > f"step-{step:06d}":
                shutil.rmtree(state)

    def num_attempts(self) -> int:
        path = self.path / "attempts.jsonl"
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0

    def append(self, journal: str, record: dict) -> None:
        """Add one line to a journal; the record holds its `step`."""
        with (self.path / f"{journal}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")

    def _states(self) -> list[Path]:
        return sorted(path for path in self.path.glob("step-*") if path.is_dir() and path.suffix != ".tmp")


def _cut_journal(path: Path, step: int) -> None:
    """Drop lines after `step` and a last line that a kill left half written."""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError):
            continue
    beside = path.with_suffix(".tmp")
    beside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    beside.replace(path)


def _set_aside_if_other(path: Path, fingerprint: str) -> None:
    mark = path / "fingerprint.json"
    old = None
    if mark.exists():
        try:
            old = read_json(mark).get("fingerprint")
        except ConfigError:
            old = "unreadable"
    if old == fingerprint:
        return
    if any(path.iterdir()):
        aside = path.parent / ".old" / f"{path.name}-{str(old)[:12]}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.parent.mkdir(exist_ok=True)
        path.replace(aside)
        path.mkdir()
    write_json(mark, {"fingerprint": fingerprint})


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
