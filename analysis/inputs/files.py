"""Files read and written: JSON checked at the border, digests compared, outputs whole or as they were.

Whatever is wrong with a file becomes `BadRun`: one line that names the file and the remedy.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn


class BadRun(ValueError):
    """A stored result is missing, damaged or contradicts another; the message names the file and the remedy."""


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        BadRun: Missing, unreadable, or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadRun(f"{path}: missing; run the step that writes it") from None
    except OSError as error:
        raise BadRun(f"{path}: cannot be read ({error.strerror or error}); make it readable") from None
    except UnicodeDecodeError:
        raise BadRun(f"{path}: is no text; delete it and rerun the step that writes it") from None


def read_json(path: Path, default: Any = None) -> Any:
    """Parse one JSON file; `default` (unless None) stands for a missing one.

    Raises:
        BadRun: Missing without a default, or not JSON (NaN and Infinity are not).
    """
    if default is not None and not path.exists():
        return default
    text = read_text(path)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path}: not JSON ({error}); delete it and rerun the step that writes it") from None


def object_of(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON object in a file. Raises BadRun for anything else."""
    value = read_json(path, default)
    if not isinstance(value, dict):
        raise BadRun(f"{path}: holds no JSON object; delete it and rerun the step that writes it")
    return value


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Parse a file of one JSON object per line; a missing file is empty.

    Raises:
        BadRun: A line is no object, or the file is there and holds none.
    """
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line, parse_constant=_no_constant)
            except (ValueError, RecursionError) as error:
                raise BadRun(f"{path}: line {number} is not JSON ({error}); delete it and rerun") from None
            if not isinstance(row, dict):
                raise BadRun(f"{path}: line {number} is no JSON object; delete it and rerun")
            rows.append(row)
    if not rows:
        raise BadRun(f"{path}: is empty; delete it and rerun the step that writes it")
    return rows


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def sha256_of(path: Path) -> str:
    """Digest of a file's bytes. Raises BadRun when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadRun(f"{path}: cannot be read ({error.strerror}); rerun the step that writes it") from None


def require_digest(path: Path, wanted: object, named_in: Path, remedy: str) -> None:
    """Compare a file with the sha256 that another file names.

    Raises:
        BadRun: No digest is named, the file is missing, or it is another one.
    """
    if not isinstance(wanted, str):
        raise BadRun(f"{named_in}: names no sha256 of {path.name}; {remedy}")
    if not path.is_file():
        raise BadRun(f"{path}: missing, though {named_in.name} names it; {remedy}")
    found = sha256_of(path)
    if found != wanted:
        raise BadRun(
            f"{path}: its sha256 {found[:12]} is not the {wanted[:12]} that {named_in} names; put the right file "
            f"back, or {remedy}"
        )


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write through a temporary file, so that a reader never sees half of it, and a failure leaves the old file.

    Raises:
        BadRun: The folder cannot be made or written (full, read-only, a file in its place).
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(data)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadRun(
            f"{path}: cannot be written ({error.strerror or error}); make room or the folder writable, or give "
            "another --out"
        ) from None


def write_json(path: Path, value: object) -> None:
    """Write sorted, indented JSON.

    What is not a finite number (the interval of a single value has no end) becomes null: JSON has no infinity.
    """
    write_text(path, json.dumps(finite(value), indent=1, sort_keys=True, allow_nan=False) + "\n")


def write_manifest(folder: Path, facts: object) -> None:
    """Write folder/manifest.json last: sha256 of every file below it, and `facts`. No dates."""
    files = {
        str(path.relative_to(folder)): sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json" and not path.name.endswith(".part")
    }
    write_json(folder / "manifest.json", {"schema": 1, "files": files, "facts": facts})


def finite(value: object) -> object:
    """The value with null for every number that JSON cannot hold.

    >>> finite({"se": float("inf"), "p": [1.0, float("nan")]})
    {'se': None, 'p': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
