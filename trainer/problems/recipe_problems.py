"""A recipe as the data of a run: built in its work folder, read back as problems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from config.model import DataSection, RuntimeSection
from config.recipes import load_recipe
from records.problem import Problem
from trainer.data.recipe_job import PROBLEMS, Order, build
from trainer.jobs.work_folder import WorkDir


def build_recipe(
    data: DataSection, runtime: RuntimeSection, made: Path, limit: int | None, rewrite: str | None
) -> dict[str, Any]:
    """Build the recipe into `made`; its shards stay in the work folder until the data are published. Returns facts."""
    folder = runtime.paths.data
    rewriter = None
    if rewrite is not None:
        from trainer.sft.rewriting import Rewriter

        # Outside the work folder: a change of the recipe keeps what a server has answered.
        rewriter = Rewriter(rewrite, runtime.folder.work("rewrites") / "answers.jsonl")
    order = Order(
        name=data.source,
        recipe=load_recipe(data.source),
        data=Path(folder) if folder is not None else None,
        limit=limit,
        workers=len(os.sched_getaffinity(0)),
        rewriter=rewriter,
    )
    with WorkDir.open(runtime.folder.work("prepare"), order.fingerprint) as work:
        card = build(order, work, made)
        for source in card.sources:
            print(
                f"source {source.name}: {source.num_rows:,} rows, {source.num_kept:,} kept, {source.licence}"
            )
        for line in card.not_checked:
            print(f"overlaps not checked: {line}")
        return {
            "recipe": card.recipe,
            "recipe_digest": card.recipe_digest,
            "num_kept": {source.name: source.num_kept for source in card.sources},
            "non_commercial": [source.name for source in card.sources if source.non_commercial],
        }


def read_recipe_problems(made: Path, count: int) -> list[Problem]:
    """The first problems of problems.parquet, which is shuffled; none where the recipe has conversations alone."""
    if not (made / PROBLEMS).is_file():
        return []
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for batch in pq.ParquetFile(made / PROBLEMS).iter_batches():
        rows += batch.slice(0, count - len(rows)).to_pylist()
        if len(rows) >= count:
            break
    return [
        Problem(
            id=row["id"],
            prompt=row["problem"],
            answer=row["answer"],
            family=row["source"],
            level=int(row["difficulty"])
            if row["difficulty"].isascii() and row["difficulty"].isdigit()
            else 0,
        )
        for row in rows
    ]
