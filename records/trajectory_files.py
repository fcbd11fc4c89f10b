"""Trajectories on disk: append-only JSONL shards while a job runs, one Parquet sorted by key at the end.

A shard is written whole and renamed, so a kill leaves either it or nothing; the Parquet has a fixed schema, so
equal trajectories give equal files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from records.errors import ConfigError
from records.files import write_text
from records.trajectory import SCHEMA_VERSION, Trajectory

_RESULT = pa.struct(
    [
        ("id", pa.string()),
        ("status", pa.string()),
        ("stdout", pa.string()),
        ("stderr", pa.string()),
        ("value", pa.string()),
        ("error", pa.struct([("type", pa.string()), ("message", pa.string()), ("traceback", pa.string())])),
        ("wall_s", pa.float64()),
        ("cpu_s", pa.float64()),
        ("queue_s", pa.float64()),
        ("max_rss_bytes", pa.int64()),
        ("dropped_bytes", pa.int64()),
    ]
)
_TURN = pa.struct(
    [
        ("text", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("call", pa.string()),
        ("num_extra_calls", pa.int32()),
        ("result", _RESULT),
        ("code", pa.string()),
    ]
)
_VERDICT = pa.struct(
    [
        ("id", pa.string()),
        ("verdict", pa.string()),
        ("extracted", pa.string()),
        ("rule", pa.string()),
        ("seconds", pa.float64()),
        ("grader", pa.string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("checkpoint", pa.string()),
        ("benchmark", pa.string()),
        ("problem", pa.string()),
        ("sample", pa.int32()),
        ("step", pa.int32()),
        ("control", pa.string()),
        ("ids", pa.list_(pa.int32())),
        ("mask", pa.list_(pa.bool_())),
        ("logprob", pa.list_(pa.float32())),
        ("prompt_len", pa.int32()),
        ("turns", pa.list_(_TURN)),
        ("T", pa.float64()),
        ("top_p", pa.float64()),
        ("seed", pa.int64()),
        ("policy_version", pa.int32()),
        ("stop", pa.string()),
        ("reward", pa.float64()),
        ("p_err", pa.float64()),
        ("p_format", pa.float64()),
        ("kept", pa.bool_()),
        ("reason", pa.string()),
        ("verdicts", pa.struct([("strict", _VERDICT), ("rstar_compat", _VERDICT), ("loose", _VERDICT)])),
        ("ids_source", pa.string()),
        ("schema_version", pa.int32()),
    ]
)
"""One column per field of Trajectory; nested records become structs."""
_KEEP = re.compile(r"sample\((\d+)\)")


def write_parquet(trajectories: Iterable[Trajectory], path: Path) -> int:
    """Write all trajectories sorted by key; returns how many. Raises ValueError on a key that comes twice."""
    ordered = sorted(trajectories, key=lambda t: t.key)
    for one, other in pairwise(ordered):
        if one.key == other.key:
            raise ValueError(f"two trajectories share the key {one.key}")
    table = pa.Table.from_pylist([t.to_json() for t in ordered], schema=SCHEMA)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, beside, compression="zstd", row_group_size=4096)
    beside.replace(path)
    return len(ordered)


def read_parquet(path: Path) -> list[Trajectory]:
    """Read a samples or trajectories file. Raises ConfigError when it is missing or of another schema."""
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
        return [_from_row(row) for row in rows]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: is not a file of trajectories ({error!r}); make it again") from None


def _from_row(row: dict[str, Any]) -> Trajectory:
    row["verdicts"] = {name: verdict for name, verdict in (row["verdicts"] or {}).items() if verdict}
    return Trajectory.from_json(row)


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


def write_shard(trajectories: Iterable[Trajectory], path: Path) -> None:
    """Write some trajectories as JSONL, whole or not at all."""
    write_text(path, "".join(json.dumps(t.to_json()) + "\n" for t in trajectories))


def read_shard(path: Path) -> Iterator[Trajectory]:
    """Read what `write_shard` wrote."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Trajectory.from_json(json.loads(line))
