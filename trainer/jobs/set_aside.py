"""`take_place`: sets aside the work of another configuration and restores the work of an equal one.

Only files without work are deleted here. Every step is one rename: after a crash at any moment each folder is complete,
under one of its two names, and the next start finds it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from records.errors import ConfigError
from records.files import free_name, read_json, sync_folder, write_json

MARK = "fingerprint.json"
INDEX = "index.json"
"""A file of each saved state; it repeats the fingerprint, in case the mark is damaged."""
DAMAGED = "damaged"
"""Part of the name of a folder of skipped states: it is kept for inspection and never used again."""
_NO_WORK = frozenset({MARK, "attempts.jsonl"})


def take_place(path: Path, fingerprint: str) -> list[str]:
    """Make `path` the working folder of `fingerprint`; the caller holds its lock.

    Returns:
        One line per event; none if the folder already belongs to `fingerprint` or holds no work.
    """
    path.mkdir(parents=True, exist_ok=True)
    old = fingerprint_of(path)
    if old == fingerprint:
        _mark(path, fingerprint)
        return []
    lines = []
    if holds_work(path):
        aside = set_aside(path, old or "unknown")
        lines.append(f"{path}: holds work of another configuration, which is set aside as {aside}")
    kept = _kept(path, fingerprint)
    if kept is None:
        path.mkdir(exist_ok=True)
        _mark(path, fingerprint)
        return lines
    if path.exists():
        shutil.rmtree(path)
    kept.replace(path)
    sync_folder(path.parent)
    return [*lines, f"{path}: resumes the work of this configuration that was set aside as {kept}"]


def fingerprint_of(path: Path) -> str | None:
    """The fingerprint of a working folder, from its mark or else its newest state; None if neither is readable."""
    for file in (path / MARK, *sorted(path.glob(f"step-*/{INDEX}"), reverse=True)):
        try:
            found = read_json(file).get("fingerprint")
        except ConfigError:
            continue
        if isinstance(found, str):
            return found
    return None


def holds_work(path: Path) -> bool:
    """Whether the folder holds a state, a journal or samples."""
    return any(
        file.is_file()
        and file.name not in _NO_WORK
        and not any(part.endswith(".tmp") for part in file.relative_to(path).parts)
        for file in path.rglob("*")
    )


def set_aside(path: Path, fingerprint: str) -> Path:
    """Move a folder to a free name under `.old` beside it; return that name."""
    aside = free_name(path, fingerprint[:12])
    path.replace(aside)
    sync_folder(aside.parent)
    sync_folder(path.parent)
    return aside


def _kept(path: Path, fingerprint: str) -> Path | None:
    """The folder set aside under this fingerprint; of several the one with the most steps, then the latest."""
    old = path.parent / ".old"
    found = [
        folder
        for folder in (sorted(old.iterdir()) if old.is_dir() else [])
        if folder.name.startswith(f"{path.name}-")
        and not folder.name.startswith(f"{path.name}-{fingerprint[:12]}-{DAMAGED}")
        and fingerprint_of(folder) == fingerprint
    ]
    return max(found, key=lambda folder: (_newest_state(folder), len(folder.name), folder.name), default=None)


def _newest_state(folder: Path) -> str:
    """Name of the newest completely saved state; empty without one."""
    return max((index.parent.name for index in folder.glob(f"step-??????/{INDEX}")), default="")


def _mark(path: Path, fingerprint: str) -> None:
    try:
        if read_json(path / MARK) == {"fingerprint": fingerprint}:
            return
    except ConfigError:
        pass
    write_json(path / MARK, {"fingerprint": fingerprint})
