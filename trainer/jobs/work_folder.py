"""`WorkDir`: the working folder of one long job, so that a kill costs minutes instead of the run.

The workflow does not declare it, because a failed job loses its declared outputs. It holds a fingerprint of everything
that decides the result. A job with an equal fingerprint resumes; another one sets the folder aside until that
fingerprint returns (`trainer.jobs.set_aside`). A rename publishes each state as `step-000120/`. The newest undamaged
state is used: its files, the journals up to its step, and the files that these name must be as they were when saved.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from records.errors import ConfigError
from records.files import free_name, read_json, sha256_of, sync_folder, write_json
from trainer.jobs.set_aside import DAMAGED, INDEX, take_place

KEEP_STATES = 2
ATTEMPTS = "attempts.jsonl"
FILES = "files"
"""Journal of the digests of files beside the journals, such as shards of trajectories."""


class WorkDir:
    """Open it with `WorkDir.open`; hold it while the job runs."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path, self._fingerprint, self._saved_at = path, fingerprint, time.monotonic()

    @classmethod
    @contextmanager
    def open(cls, path: Path, fingerprint: str) -> Iterator[WorkDir]:
        """Lock the folder for `fingerprint`. Raises ConfigError while another process holds it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock_path = path.with_name(f"{path.name}.lock")
        with lock_path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another process works there; wait for it or stop it") from None
            for line in take_place(path, fingerprint):
                print(line, flush=True)
            yield cls(path, fingerprint)

    def save(self, step: int, write: Callable[[Path], None]) -> None:
        """Let `write` fill a folder, then publish it as the state of `step`; keep only the last older state."""
        final = self.path / _name_of(step)
        beside = self.path / f"{_name_of(step)}.tmp"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        try:
            write(beside)
            files = {path.name: sha256_of(path) for path in sorted(beside.iterdir())}
            journals = {path.stem: [path.stat().st_size, sha256_of(path)] for path in self._journals()}
            index = {"step": step, "files": files, "journals": journals, "fingerprint": self._fingerprint}
            write_json(beside / INDEX, index)
            for name in files:
                _flush(beside / name)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        # No state survives a power cut without the journal lines up to it.
        for journal in self._journals():
            _flush(journal)
        shutil.rmtree(final, ignore_errors=True)
        beside.replace(final)
        sync_folder(self.path)
        self._saved_at = time.monotonic()
        for old in self._states()[:-KEEP_STATES]:
            shutil.rmtree(old, ignore_errors=True)

    @property
    def unsaved_s(self) -> float:
        """Seconds since a state was saved, or the folder opened: what a kill costs now."""
        return time.monotonic() - self._saved_at

    def newest(self) -> tuple[int, Path] | None:
        """Step and folder of the newest undamaged state; a damaged one is skipped with a line that names the fault."""
        for state in reversed(self._states()):
            fault = self._fault_of(state)
            if fault is None:
                return int(read_json(state / INDEX)["step"]), state
            print(f"{state}: damaged, skipped: {fault}", flush=True)
        return None

    def begin_attempt(self, step: int) -> None:
        """Record a start or resume at `step`: cut the journals back to it and set damaged states aside."""
        self._set_damaged_aside(step)
        lengths: dict[str, list[Any]] = {}
        state = self.path / _name_of(step)
        if state.is_dir():
            lengths = read_json(state / INDEX)["journals"]
        for journal in self._journals():
            # In place: a crash at any moment leaves the lines up to the state intact.
            os.truncate(journal, lengths.get(journal.stem, [0])[0])
        with (self.path / ATTEMPTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "unix_s": time.time(), "pid": os.getpid()}) + "\n")

    def require_whole(self, step: int) -> None:
        """Before publication: raise ConfigError if the state of `step`, or anything that led to it, is damaged."""
        newest = self.newest()
        if newest is not None and newest[0] == step:
            lengths = read_json(newest[1] / INDEX)["journals"]
            longer = [j for j in self._journals() if j.stat().st_size != lengths.get(j.stem, [0])[0]]
            if not longer:
                return
            print(f"{longer[0]}: holds lines after step {step}", flush=True)
        raise ConfigError(
            f"{self.path}: a file that led to step {step} is damaged (the line above names it); nothing is published; "
            "put the file back, or run the same command again, which resumes from the last undamaged state"
        )

    def num_attempts(self) -> int:
        path = self.path / ATTEMPTS
        return len(path.read_bytes().splitlines()) if path.exists() else 0

    def append(self, journal: str, record: dict) -> None:
        """Add one line to a journal; the record holds its `step`."""
        with (self.path / f"{journal}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True, allow_nan=False) + "\n")

    def seal(self, step: int, *paths: Path) -> None:
        """Record the digests of finished files of this folder, so that a reader detects damage."""
        files = {path.relative_to(self.path).as_posix(): sha256_of(path) for path in paths}
        self.append(FILES, {"step": step, "files": files})

    def is_sealed(self, path: Path) -> bool:
        """Whether the file equals its last sealed version."""
        journal = self.path / f"{FILES}.jsonl"
        sealed = _sealed(journal.read_bytes()) if journal.is_file() else {}
        expected = sealed.get(path.relative_to(self.path).as_posix())
        return expected is not None and path.is_file() and sha256_of(path) == expected

    def clear(self) -> None:
        """Remove the work of a job whose complete result is published."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        for journal in self._journals():
            journal.unlink()

    def _fault_of(self, state: Path) -> str | None:
        """Name what is damaged in a state or in the journals up to it; None if nothing is."""
        try:
            index = read_json(state / INDEX)
            files, journals = dict(index["files"]), dict(index["journals"])
            if state.name != _name_of(int(index["step"])):
                return f"{INDEX} is that of step {index['step']}"
            for name, expected in files.items():
                if sha256_of(state / name) != expected:
                    return f"{name} differs from what was saved"
            return self._fault_before(journals)
        except FileNotFoundError as error:
            return f"{error.filename} is missing"
        except (ConfigError, OSError, KeyError, AttributeError, TypeError, ValueError):
            return f"{INDEX} cannot be read"

    def _fault_before(self, journals: dict[str, list[Any]]) -> str | None:
        """As `_fault_of`, for the journals up to a state and the files that they name."""
        for stem, (size, expected) in sorted(journals.items()):
            path = self.path / f"{stem}.jsonl"
            with path.open("rb") as file:
                start = file.read(size)
            if len(start) < size or hashlib.sha256(start).hexdigest() != expected:
                return f"{path} is cut or changed"
            if stem == FILES:
                for name, digest in _sealed(start).items():
                    if not (self.path / name).is_file():
                        return f"{self.path / name} is missing"
                    if sha256_of(self.path / name) != digest:
                        return f"{self.path / name} is cut or changed"
        return None

    def _set_damaged_aside(self, step: int) -> None:
        """Move states after `step` away: they would count among the kept states and push out the new ones."""
        later = [state for state in self._states() if state.name > _name_of(step)]
        if not later:
            return
        aside = free_name(self.path, f"{self._fingerprint[:12]}-{DAMAGED}")
        aside.mkdir()
        for journal in self._journals():
            shutil.copyfile(journal, aside / journal.name)
        for state in later:
            state.replace(aside / state.name)
        print(
            f"{self.path}: resumes from step {step}; later states and the journals are kept in {aside}",
            flush=True,
        )

    def _journals(self) -> list[Path]:
        return sorted(path for path in self.path.glob("*.jsonl") if path.name != ATTEMPTS)

    def _states(self) -> list[Path]:
        return sorted(path for path in self.path.glob("step-*") if path.is_dir() and path.suffix != ".tmp")


def _name_of(step: int) -> str:
    return f"step-{step:06d}"


def _sealed(lines: bytes) -> dict[str, str]:
    """Digests by path from lines of the journal of files; the last one per path. Partial lines are skipped."""
    found: dict[str, str] = {}
    for line in lines.splitlines():
        try:
            found |= {str(name): str(digest) for name, digest in json.loads(line)["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
