"""`write_text`, `read_json` and others: files that are whole or absent at any moment of a crash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any, NoReturn

from records.errors import ConfigError

RERUN = "delete it and run the step that writes it"


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a temporary file, flush it to disk, rename it. A full disk keeps the old file and raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the error of a failed write has no file name
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Write indented JSON with sorted keys; equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_text(path: Path, remedy: str = RERUN) -> str:
    """Return the text of a file; ConfigError when it is missing, unreadable or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: missing; run the step that writes it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}); make it readable") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is no text; {remedy}") from None


def read_json(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON object in a file; `default` (unless None) replaces a missing file.

    Raises:
        ConfigError: missing without a default, not JSON (NaN and Infinity are not), or no object.
    """
    if default is not None and not path.exists():
        return default
    return _parsed(read_text(path), str(path))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Parse a file of one JSON object per line; a missing file is empty.

    Raises:
        ConfigError: a line is no object, or the file exists and has no line.
    """
    if not path.exists():
        return []
    lines = enumerate(read_text(path).splitlines(), start=1)
    rows = [_parsed(line, f"{path}: line {number}") for number, line in lines if line.strip()]
    if not rows:
        raise ConfigError(f"{path}: is empty; {RERUN}")
    return rows


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: is not JSON ({error}); {RERUN}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: holds no JSON object; {RERUN}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_name(path: Path, suffix: str) -> Path:
    """`.old/NAME-SUFFIX` beside `path`, with a number if that name exists; no folder is ever replaced."""
    folder = path.parent / ".old"
    folder.mkdir(exist_ok=True)
    first = folder / f"{path.name}-{suffix}"
    number, aside = 1, first
    while aside.exists():
        number += 1
        aside = first.with_name(f"{first.name}-{number}")
    return aside


def sha256_of(path: Path) -> str:
    """Return the digest of a file's bytes, as hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_digest(path: Path, expected: object, named_in: Path, remedy: str) -> None:
    """Compare a file with the sha256 that another file names.

    Raises:
        ConfigError: no digest is named, the file is missing, or its digest differs.
    """
    if not isinstance(expected, str):
        raise ConfigError(f"{named_in}: names no sha256 of {path.name}; {remedy}")
    if not path.is_file():
        raise ConfigError(f"{path}: missing, though {named_in.name} names it; {remedy}")
    found = sha256_of(path)
    if found != expected:
        raise ConfigError(
            f"{path}: its sha256 {found[:12]} is not the {expected[:12]} that {named_in} names; put the right file "
            f"back, or {remedy}"
        )
