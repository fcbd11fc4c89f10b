"""Files that are either whole or absent, whatever moment the machine dies."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from records.errors import ConfigError


def write_text(path: Path, text: str) -> None:
    """Write beside, flush to disk, rename. A full disk leaves the old file and raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a failed write names no file
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Indented JSON with sorted keys; equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict:
    """Read an object. Raises ConfigError, with the remedy, when the file is missing or broken."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); run the step that makes it") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: is not JSON; delete it and run the step that makes it") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: must hold a JSON object")
    return value


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Digest of a file's bytes, as hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
