"""`prepare` writes the problems of every split once: data/<split>.jsonl, a manifest with digests, duplicate counts."""

from __future__ import annotations

import shutil
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from config.commands import PrepareView
from config.model import DataSection, RuntimeSection
from records.errors import ConfigError
from records.manifest import Manifest, write_folder
from records.problem import Problem
from records.seeds import derive_seed
from trainer.problems.family import ProblemError
from trainer.problems.problem_files import write_problems
from trainer.problems.splits import RINGS, Splits, generate_splits
from trainer.start import source_faults

RING = {name: f"test-{name}" for name in RINGS}
"""Test ring -> file stem; a split that is absent here gives its own name to its file."""


def prepare(
    view: PrepareView, runtime: RuntimeSection, *, limit: int | None = None, rewrite: str | None = None
) -> Manifest:
    """Make all splits and publish them.

    Args:
        view: the section data.
        runtime: the run, and the folder that replaces the hub.
        limit: rows read of each source of a recipe; None: all.
        rewrite: server that rewrites what a recipe marks; None: nothing is rewritten.

    Raises:
        ConfigError: a source cannot be had, or a problem occurs twice.
    """
    if faults := list(source_faults(view.data, runtime)):
        raise ConfigError("; ".join(faults))
    began = time.monotonic()
    folder = runtime.folder.data
    made = folder.with_name(".data.tmp")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    facts: dict[str, Any] = {}
    if view.data.kind == "recipe":
        from trainer.problems.recipe_problems import build_recipe

        facts |= build_recipe(view.data, runtime, made, limit, rewrite)
    splits = _generate(view.data)
    duplicates = splits.count_duplicates()
    print(f"duplicates over all splits: {duplicates.exact} exact, {duplicates.params} by parameters")
    if duplicates.exact or duplicates.params:
        raise ConfigError(
            "data: a problem occurs in two splits; this is a bug of the generators, please report it"
        )
    pools = {RING.get(field.name, field.name): getattr(splits, field.name) for field in fields(splits)}
    pools |= _foreign(view.data, made)
    counts = {}
    for stem, problems in pools.items():
        write_problems(problems, made / f"{stem}.jsonl")
        counts[stem] = len(problems)
    facts |= {"num_problems": counts, "duplicates": {"exact": duplicates.exact, "params": duplicates.params}}
    return write_folder(
        folder,
        made,
        {"stage": "data", "parent": None, "data": None, "sections": view.record, "facts": facts},
        {"finished_unix_s": time.time(), "seconds": time.monotonic() - began},
    )


def _foreign(data: DataSection, made: Path) -> dict[str, tuple[Problem, ...]]:
    """Train and dev of a recipe or of a user's own problems; nothing where all problems are procedural."""
    if data.kind == "own":
        from trainer.problems.own_problems import read_own_problems

        found = read_own_problems(Path(data.source))
        found.sort(key=lambda problem: derive_seed(data.seed, "own", problem.id))
    elif data.kind == "recipe":
        from trainer.problems.recipe_problems import read_recipe_problems

        found = read_recipe_problems(made, data.num_dev + data.num_train)
    else:
        return {}
    if not found:  # a recipe of conversations alone: its run trains on procedural problems
        return {}
    num_dev = min(data.num_dev, len(found) // 10)
    pools = {"dev": found[:num_dev], "train": found[num_dev : num_dev + data.num_train]}
    print(f"{data.source}: {len(pools['train']):,} problems to train on, {num_dev:,} to tune on")
    return {stem: tuple(replace(p, split=stem) for p in problems) for stem, problems in pools.items()}


def _generate(data: DataSection) -> Splits:
    try:
        return generate_splits(
            seed=data.seed,
            num_sft=data.num_sft,
            num_train=data.num_train,
            num_dev=data.num_dev,
            num_test=data.num_test,
            min_ring=1,
        )
    except ProblemError as error:
        raise ConfigError(f"data: {error}") from None
