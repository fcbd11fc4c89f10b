"""`map_rows`: a function over every row of a source, in shards of fixed size.

Each finished shard is a file of its own, so a killed job repeats one shard. Shards depend on the rows alone, so the
result has the same bytes for any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datasets import Dataset, Features

ROWS_PER_SHARD = 50_000
BATCH = 500
"""Rows of one call."""

Columns = Mapping[str, list[Any]]


class RowFunction(Protocol):
    """Makes columns of columns; pickled once per shard and worker."""

    def __call__(self, batch: Columns, indices: list[int]) -> dict[str, list[Any]]: ...


class _Offset:
    """Numbers the rows of a shard as rows of the source."""

    def __init__(self, function: RowFunction, start: int) -> None:
        self.function, self.start = function, start

    def __call__(self, batch: Columns, indices: list[int]) -> dict[str, list[Any]]:
        return self.function(batch, [self.start + index for index in indices])


def map_rows(
    rows: Dataset,
    function: RowFunction,
    *,
    features: Features,
    folder: Path,
    workers: int,
    identity: str,
    shard: int = ROWS_PER_SHARD,
) -> Dataset:
    """Apply `function` to all rows.

    Args:
        rows: of one source.
        function: gets a batch of columns and the numbers of its rows; returns the columns of `features`.
        features: of the result.
        folder: keeps the shards between attempts; all that decides the result must be in its name or its owner's.
        workers: processes; changes no byte.
        identity: of rows and function, for the cache of `datasets`.
        shard: rows of a shard; changes no byte of the rows.
    """
    from datasets import concatenate_datasets

    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for start in range(0, max(len(rows), 1), shard):
        part = rows.select(range(start, min(start + shard, len(rows))))
        shards.append(
            part.map(
                _Offset(function, start),
                batched=True,
                batch_size=BATCH,
                with_indices=True,
                remove_columns=rows.column_names,
                features=features,
                num_proc=workers if workers > 1 and len(part) > BATCH else None,
                cache_file_name=str(folder / f"{start:09d}.arrow"),
                load_from_cache_file=True,
                new_fingerprint=f"{identity}-{start}",
            )
        )
    return concatenate_datasets(shards)


def rows_of(batch: Columns) -> list[dict[str, Any]]:
    """Columns as rows."""
    names = list(batch)
    return [dict(zip(names, values, strict=True)) for values in zip(*batch.values(), strict=True)]
