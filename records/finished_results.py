"""What is finished stays: no command replaces a result that it does not know to be its own, unless the user says so."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from records.errors import ConfigError

SUMMARY = "summary.json"
"""Written last: an evaluation folder with it is finished."""


def refuse_to_replace(path: Path, *, overwrite: bool) -> None:
    """Keep a file of the user's. Raises ConfigError when `path` exists and the user did not ask to replace it."""
    if path.is_dir():
        raise ConfigError(f"--out {path}: is a folder; name a file")
    if path.exists() and not overwrite:
        raise ConfigError(
            f"--out {path}: exists already; name another file, or pass --overwrite to replace it"
        )


def finished(
    out: Path, fingerprint: str, asked: Iterable[Mapping[str, Any]], *, overwrite: bool
) -> dict[str, Any] | None:
    """The summary of an evaluation that is finished already; None when there is work to do.

    Args:
        out: folder of the evaluation.
        fingerprint: digest of all that decides its samples.
        asked: the plans of this command, for the message.
        overwrite: the user wants the folder replaced, whatever it holds.

    Raises:
        ConfigError: `out` holds another finished evaluation, or one whose files do not belong together.
    """
    path = out / SUMMARY
    if overwrite or not path.exists():
        return None
    remedy = "name another --out, or pass --overwrite to replace it"
    try:
        summary = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise ConfigError(f"{path}: is no summary that can be read; {remedy}") from None
    if summary.get("fingerprint") != fingerprint:
        held, wanted = _held(summary), _named(asked)
        other = "" if held != wanted else " with other settings, data or weights"
        raise ConfigError(
            f"{out}: holds a finished evaluation ({held}){other}, and this one is {wanted}; {remedy}"
        )
    samples = out / "samples.parquet"
    if not samples.is_file() or _sha256_of(samples) != summary.get("samples_sha256"):
        raise ConfigError(f"{samples}: is not the file that {SUMMARY} was made from; {remedy}")
    return summary


def write_whole(path: Path, text: str) -> None:
    """Write a file that is either whole or as it was: beside it first, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _held(summary: Mapping[str, Any]) -> str:
    """The plans of a summary that may hold anything.

    >>> _held({"settings": {"plans": [{"benchmarks": ["aime24"], "temperature": None}]}})
    'of unknown settings'
    """
    try:
        return _named(summary["settings"]["plans"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return _named([])


def _named(plans: Iterable[Mapping[str, Any]]) -> str:
    """Plans in a few words.

    >>> _named([{"benchmarks": ["aime24", "aime25"], "k": 4, "temperature": 1.0}])
    'aime24, aime25: k 4, T 1'
    """
    words = [
        f"{', '.join(plan.get('benchmarks', []))}: k {plan.get('k')}, T {plan.get('temperature', 0):g}"
        for plan in plans
    ]
    return "; ".join(words) or "of unknown settings"
