"""A source of a recipe as rows on disk: its file in the data folder, else its set on the hub.

Hugging Face `datasets` reads both into Arrow files, which are mapped into memory and not held in it. Lines of a JSONL
file stay text here, byte for byte: one broken line is then a counted row, and not the end of the whole file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.recipes import SourceSpec
from records.errors import ConfigError
from records.files import sha256_of

if TYPE_CHECKING:
    from datasets import Dataset

LINE = "line"
"""Column of a file read as text."""
MAX_ROW_BYTES = 4 * 2**20
"""A longer line is no row of any known set; it is counted and not parsed."""


class RowFault(ValueError):
    """One row cannot be used: `reason` is counted, `detail` is for a reader."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows of a source come from, without having read them."""

    path: Path | None
    """Its file; None: the hub."""
    fault: str | None = None
    """Why its rows cannot be reached, where that is certain before a download."""

    @property
    def is_reachable(self) -> bool:
        return self.fault is None


def place_of(spec: SourceSpec, data: Path | None) -> Place:
    """Where a source would be read from. Asks the hub nothing but whether it answers."""
    path = data / spec.file if data is not None else None
    if path is not None and path.is_file():
        return Place(path)
    folder = f"runtime.paths.data = {data}" if data is not None else "runtime.paths.data, which is null"
    remedy = f"put {spec.file} into {folder}"
    if spec.hub is None:
        return Place(None, f"source {spec.name}: is no published set; {remedy}")
    from verifier.declaration import hub_answers

    if not hub_answers():
        login = ", or log in and accept its conditions" if spec.gated else ""
        return Place(None, f"source {spec.name}: the hub does not answer for {spec.hub}; {remedy}{login}")
    return Place(None)


def open_rows(spec: SourceSpec, data: Path | None, cache: Path) -> Dataset:
    """Rows of a source, memory-mapped. Raises ConfigError when they cannot be reached, naming the remedy."""
    place = place_of(spec, data)
    if place.fault is not None:
        raise ConfigError(place.fault)
    import datasets

    datasets.disable_progress_bars()
    if place.path is None:
        return _from_hub(spec, cache)
    return read_file(place.path, cache)


def read_file(path: Path, cache: Path) -> Dataset:
    """Rows of a Parquet file, or lines of a text file. Raises ConfigError when it cannot be read."""
    from datasets import Features, Value, load_dataset
    from datasets.exceptions import DatasetGenerationError

    try:
        if path.suffix == ".parquet":
            return load_dataset("parquet", data_files=[str(path)], split="train", cache_dir=str(cache))
        # As Latin-1 every byte is a character, so that a line of another encoding is a row and can be counted.
        features = Features({LINE: Value("string")})
        return load_dataset(
            "text",
            data_files=[str(path)],
            split="train",
            cache_dir=str(cache),
            encoding="latin-1",
            features=features,
        )
    except (DatasetGenerationError, OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({_reason(error)}); {_remedy(error)}") from None


def _from_hub(spec: SourceSpec, cache: Path) -> Dataset:
    from datasets import load_dataset

    try:
        return load_dataset(
            str(spec.hub), spec.subset, split=spec.split, revision=spec.revision, cache_dir=str(cache)
        )
    except Exception as error:  # the hub client raises many kinds; all mean that the rows are not here
        gated = "; the set is gated: log in and accept its conditions" if spec.gated else ""
        raise ConfigError(
            f"source {spec.name}: {spec.hub} cannot be read ({_reason(error)}){gated}; it may have moved: put "
            f"{spec.file} into runtime.paths.data, or correct hub and revision in the recipe"
        ) from None


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).splitlines()
    return lines[0][:160] if lines else type(error).__name__


def _remedy(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, OSError) and error.errno == 28:
        return "free some disk and run the same command again, which goes on where this one stopped"
    return "give a JSONL or Parquet file"


def identity(spec: SourceSpec, data: Path | None) -> str:
    """What decides the rows of a source: the digest of its file, else hub id and revision."""
    place = place_of(spec, data)
    if place.path is not None:
        return sha256_of(place.path)
    return f"{spec.hub}@{spec.revision or 'unpinned'}"


def record_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record in a row: columns of a Parquet or hub set as they are, JSON of a line.

    Raises RowFault: blank, row_too_large, not_utf8, not_json, not_an_object.
    """
    line = row.get(LINE)
    if not isinstance(line, str) or len(row) != 1:
        return row
    if not line.strip():
        raise RowFault("blank")
    if len(line) > MAX_ROW_BYTES:
        raise RowFault("row_too_large", f"{len(line):,} bytes")
    try:
        record = json.loads(line.encode("latin-1").decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RowFault("not_utf8", f"byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise RowFault("not_json", str(error)) from None
    if not isinstance(record, dict):
        raise RowFault("not_an_object", type(record).__name__)
    return record


def require_part(record: Mapping[str, Any], where: Mapping[str, list[str]]) -> None:
    """Raise RowFault unless each column of `where` has one of its values."""
    for column, values in where.items():
        if column not in record:
            raise RowFault("missing_column", column)
        if str(record[column]) not in values:
            raise RowFault("other_part", f"{column} = {record[column]!r}")
