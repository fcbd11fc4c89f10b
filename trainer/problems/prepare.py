"""`prepare` writes the problems of every split once: data/<split>.jsonl, a manifest with digests, duplicate counts."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from config.commands import PrepareView
from config.model import DataSection, RuntimeSection
from records.digest import digest
from records.errors import ConfigError
from records.files import write_text
from records.manifest import Manifest, verify, write_folder
from records.problem import Problem
from records.seeds import derive_seed
from trainer.problems.family import ProblemError
from trainer.problems.splits import Splits, generate_splits
from trainer.start import source_faults

RING = {"numbers": "test-numbers", "composition": "test-composition", "family": "test-family"}
"""Test ring -> file stem; a split that is absent here gives its own name to its file."""


def prepare(view: PrepareView, runtime: RuntimeSection, *, limit: int | None = None) -> Manifest:
    """Make all splits and publish them.

    Args:
        view: the section data.
        runtime: the run, and the folder that replaces the hub.
        limit: rows read of each source of a recipe; None: all.

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

        facts |= build_recipe(view.data, runtime, made, limit)
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


def write_problems(problems: Iterable[Problem], path: Path) -> None:
    """Write one JSON object per line, in the given order."""
    write_text(
        path, "".join(json.dumps(p.to_json(), ensure_ascii=False, sort_keys=True) + "\n" for p in problems)
    )


def read_problems(path: Path) -> list[Problem]:
    """Read problems, one JSON object per line. Raises ConfigError with file, line and fault."""
    lines = read_lines(path, "problems")
    problems = [_read_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    seen: set[str] = set()
    for problem in problems:
        if problem.id in seen:
            raise ConfigError(f"{path}: two problems are called {problem.id!r}; give each its own id")
        seen.add(problem.id)
    return problems


def read_lines(path: Path, what: str) -> list[str]:
    """Lines of a UTF-8 text file, without byte-order mark and carriage returns.

    Raises ConfigError, which states what the file should hold.
    """
    try:
        # Not splitlines: JSON strings may contain other line separators.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        reason = error.strerror or "no reason given"
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 text at byte {error.start}"
    raise ConfigError(f"{path}: cannot be read ({reason}); give a JSONL file of {what}")


def _read_line(path: Path, number: int, line: str) -> Problem:
    where = f"{path}, line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not JSON ({error}); repair or delete the line") from None
    needs = "every problem needs id, prompt and answer, each a string"
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: has no id, for it is no JSON object; {needs}")
    for key in ("id", "prompt", "answer"):
        value = record.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ConfigError(f"{where}: has no {key}; {needs}")
        if not isinstance(value, str):
            raise ConfigError(
                f"{where}: {key} = {json.dumps(value)[:80]} is no string; put it in quotes: {needs}"
            )
    try:
        return Problem.from_json(record)
    except TypeError as error:
        raise ConfigError(
            f"{path}, line {number}: {error}; allowed keys are those of records.trajectory.Problem"
        ) from None


def load_split(runtime: RuntimeSection, stem: str) -> list[Problem]:
    """Read one split of this run's data after a check of its digest."""
    folder = runtime.folder.data
    verify(folder)
    return read_problems(folder / f"{stem}.jsonl")


def pool_digest(problems: Iterable[Problem]) -> str:
    """Digest over canonical (id, prompt, answer) rows, sorted by id."""
    return digest(sorted([p.id, p.prompt, p.answer] for p in problems))
