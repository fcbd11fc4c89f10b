"""`write_shard`, `write_parquet`: trajectories as append-only JSONL shards, then one Parquet file sorted by key.

A shard is written whole and renamed, so a kill leaves all of it or nothing. The Parquet file has a fixed schema, so
equal trajectories give equal files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from records.errors import ConfigError
from records.files import write_text
from records.trajectory import SCHEMA_VERSION, Rollout, Trajectory
from records.trajectory_row import FIELDS, from_row, to_row

VERDICT_COLUMNS = ("strict", "rstar_compat", "loose")
"""Graders with a column in the Parquet file."""
_WIDE = frozenset({"seed", "max_rss_bytes", "dropped_bytes"})
"""Numbers that require 64 bits."""
_SINGLE = frozenset({"logprob"})
"""Numbers that single precision holds as the engine returned them."""
_KEEP = re.compile(r"sample\((\d+)\)")


def _arrow_type(hint: Any, name: str) -> pa.DataType:
    """Return the column type of a field: records become structs, verdicts a struct with one field per grader."""
    kind, args = get_origin(hint), get_args(hint)
    if kind is UnionType:
        (hint,) = (arg for arg in args if arg is not NoneType)
        return _arrow_type(hint, name)
    if kind is Sequence:
        return pa.list_(_arrow_type(args[0], name))
    if kind is Mapping:
        return pa.struct([(grader, _arrow_type(args[1], name)) for grader in VERDICT_COLUMNS])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return pa.struct([(field.name, _arrow_type(hints[field.name], field.name)) for field in fields(hint)])
    if issubclass(hint, str):
        return pa.string()
    if hint is bool:
        return pa.bool_()
    if hint is int:
        return pa.int64() if name in _WIDE else pa.int32()
    assert hint is float, f"{name}: a field of type {hint} has no column type"
    return pa.float32() if name in _SINGLE else pa.float64()


def _schema() -> pa.Schema:
    hints = get_type_hints(Trajectory)
    return pa.schema(
        [
            *((name, _arrow_type(hints[name], name)) for name in FIELDS),
            ("kept", pa.bool_()),
            ("reason", pa.string()),
            ("schema_version", pa.int32()),
        ]
    )


SCHEMA = _schema()
"""One column per field of a row (`records.trajectory_row`); nested records become structs."""


def write_parquet(trajectories: Iterable[Rollout], path: Path) -> int:
    """Write all trajectories sorted by key; return their number. Raises ValueError on a repeated key."""
    ordered = sorted(trajectories, key=lambda t: t.key)
    for one, other in pairwise(ordered):
        if one.key == other.key:
            raise ValueError(f"two trajectories share the key {one.key}")
    table = pa.Table.from_pylist([to_row(t) for t in ordered], schema=SCHEMA)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, beside, compression="zstd", row_group_size=4096)
    beside.replace(path)
    return len(ordered)


def read_parquet(path: Path) -> list[Trajectory]:
    """Read a samples or trajectories file; ConfigError when it is missing or of another schema."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; name a Parquet file in it")
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None
    if rows and rows[0].get("schema_version") != SCHEMA_VERSION:
        found = rows[0].get("schema_version")
        raise ConfigError(f"{path}: schema_version {found}, this code reads {SCHEMA_VERSION}")
    try:
        return [from_row(row) for row in rows]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: is not a file of trajectories ({error!r}); make it again") from None


def kept_for_disk(trajectories: Sequence[Trajectory], keep: str) -> list[Trajectory]:
    """Apply `rollout.keep`: all, trained, or the first n by key.

    >>> kept_for_disk([], "sample(4)")
    []
    """
    if keep == "all":
        return list(trajectories)
    if keep == "trained":
        return [t for t in trajectories if t.kept]
    match = _KEEP.fullmatch(keep)
    if match is None:
        raise ConfigError(f"rollout.keep = {keep!r}: must be all, trained or sample(n)")
    return sorted(trajectories, key=lambda t: t.key)[: int(match.group(1))]


def write_shard(trajectories: Iterable[Rollout], path: Path) -> None:
    """Write rollouts as JSONL, whole or not at all."""
    write_text(path, "".join(json.dumps(to_row(t)) + "\n" for t in trajectories))


def read_shard(path: Path) -> Iterator[Trajectory]:
    """Read the output of `write_shard`."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield from_row(json.loads(line))
