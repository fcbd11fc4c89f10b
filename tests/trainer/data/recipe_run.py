"""`python recipe_run.py RECIPE DATA OUT WORKERS SHARD`: builds a recipe, for the tests that kill it."""

from __future__ import annotations

import sys
from pathlib import Path

from config.recipes import load_recipe
from trainer.data.recipe_job import Order, build
from trainer.jobs.work_folder import WorkDir


def run(recipe: Path, data: Path, out: Path, workers: int = 1, shard: int = 500) -> None:
    """Build into OUT/made, resumable in OUT/work."""
    order = Order(name="r", recipe=load_recipe(str(recipe)), data=data, workers=workers, shard=shard)
    made = out / "made"
    made.mkdir(parents=True, exist_ok=True)
    with WorkDir.open(out / "work", order.fingerprint) as work:
        build(order, work, made)


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:4]]
    run(given[0], given[1], given[2], int(sys.argv[4]), int(sys.argv[5]))
