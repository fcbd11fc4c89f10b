"""What a recipe would read, before it reads a row: sources, revisions, licences, counts, disk, what is out of reach."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from config.model import DataSection, RuntimeSection
from config.recipes import ConversationSource, Recipe, SourceSpec, load_recipe
from records.errors import ConfigError
from trainer.data.sources import place_of

BYTES_PER_ROW = 4_000
"""Disk of a row where only its number is known: Arrow copy, shard and Parquet of an ordinary conversation."""
FACTOR = 3.5
"""Disk for each byte of a source file: its Arrow copy, shards with signatures, Parquet."""


def lines_of(data: DataSection, runtime: RuntimeSection) -> Iterator[str]:
    """Lines for a reader. Raises ConfigError when the source is no recipe, or an unknown one."""
    if data.kind != "recipe":
        raise ConfigError(f"--dry-run: data.source = {data.source} is no recipe; give --recipe NAME")
    recipe = load_recipe(data.source)
    folder = Path(runtime.paths.data) if runtime.paths.data is not None else None
    yield f"{recipe.title} (recipe {data.source}, seed {recipe.seed})"
    yield from (_line(source, folder) for source in recipe.sources)
    yield f"expected rows: {sum(source.expected or 0 for source in recipe.sources):,} in all"
    place = Path(runtime.paths.results)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    yield f"disk: about {_bytes(recipe, folder) / 1e9:.2f} GB while it runs; {free / 1e9:.1f} GB free for {place}"
    unreached = [source for source in recipe.sources if not place_of(source, folder).is_reachable]
    non_commercial = [source.name for source in recipe.sources if source.non_commercial]
    if non_commercial:
        yield f"non-commercial: {', '.join(non_commercial)}"
    yield f"out of reach: {len(unreached)} of {len(recipe.sources)} sources"
    yield from (f"  {place_of(source, folder).fault}" for source in unreached)


def _line(source: SourceSpec, folder: Path | None) -> str:
    place = place_of(source, folder)
    if place.path is not None:
        at = f"file {place.path}, {place.path.stat().st_size / 1e6:.1f} MB"
    else:
        revision = source.revision or "not pinned"
        at = f"hub {source.hub}, revision {revision}" if source.hub else "no published set"
    marks = [
        "non-commercial" if source.non_commercial else "",
        "gated" if source.gated else "",
        "format unconfirmed" if isinstance(source, ConversationSource) and not source.confirmed else "",
        "" if place.is_reachable else "OUT OF REACH",
    ]
    expected = f"{source.expected:,}" if source.expected is not None else "unknown"
    found = f", {source.found:,} in the authors' file" if source.found is not None else ""
    shown = "; ".join(mark for mark in marks if mark)
    return f"  {source.name}: {at}; {source.licence}; rows expected {expected}{found}{'; ' + shown if shown else ''}"


def _bytes(recipe: Recipe, folder: Path | None) -> float:
    total = 0.0
    for source in recipe.sources:
        path = place_of(source, folder).path
        total += FACTOR * path.stat().st_size if path is not None else BYTES_PER_ROW * (source.expected or 0)
    return total
