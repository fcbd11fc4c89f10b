"""`import_samples`: sample files of lm-eval, lighteval and verl as rollouts.

The files hold text instead of token ids, so every row has `ids_source: retokenised`: it can be graded, compared and
read, but entropy and training refuse it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from records.trajectory import Rollout


class Harness(StrEnum):
    LM_EVAL = "lm_eval"
    """`--log_samples`: samples_*.jsonl with doc_id, resps, target."""
    LIGHTEVAL = "lighteval"
    """`--save-details`: Parquet or JSONL with the columns doc and model_response."""
    VERL = "verl"
    """`trainer.validation_data_dir` or `rollout_data_dir`: JSONL with input, output, gts or score."""


class ImportFailed(ValueError):
    """The file does not match the harness; the message names the row and what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One sample with the gold of its file."""

    rollout: Rollout
    gold: str


def import_samples(
    path: Path, harness: Harness, *, run: str, checkpoint: str, benchmark: str
) -> list[Imported]:
    """Read a sample file of another harness.

    Args:
        path: the file.
        harness: the harness that wrote it.
        run: name of the run in the new rows.
        checkpoint: name of the model in the new rows.
        benchmark: name of the benchmark in the new rows.

    Raises:
        ImportFailed: a row lacks a field that the harness always writes.
    """
    reader = {Harness.LM_EVAL: _lm_eval, Harness.LIGHTEVAL: _lighteval, Harness.VERL: _verl}[harness]
    imported: list[Imported] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(_rows(path), 1):
        try:
            samples = list(reader(row, number))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ImportFailed(f"{path}, row {number}: not a {harness} sample: {error!r}") from None
        for problem, gold, text in samples:
            at = seen.get(problem, 0)
            seen[problem] = at + 1
            rollout = _rollout(
                text, run=run, checkpoint=checkpoint, benchmark=benchmark, problem=problem, sample=at
            )
            imported.append(Imported(rollout=rollout, gold=gold))
    if not imported:
        raise ImportFailed(f"{path}: holds no samples; give a samples file of {harness}")
    return imported


def _rollout(text: str, *, run: str, checkpoint: str, benchmark: str, problem: str, sample: int) -> Rollout:
    from records.trajectory import CallKind, IdsSource, Rollout, StopReason, Turn

    return Rollout(
        run=run,
        checkpoint=checkpoint,
        benchmark=benchmark,
        problem=problem,
        sample=sample,
        turns=[Turn(text=text, start=0, end=0, call=CallKind.NONE)],
        stop=StopReason.ANSWER,
        ids_source=IdsSource.RETOKENISED,
    )


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_dir():
        raise ImportFailed(f"cannot read {path}: it is a folder; name a samples file in it")
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        try:
            yield from pq.read_table(path).to_pylist()
        except (OSError, ValueError) as error:
            raise ImportFailed(f"{path}: not a Parquet file: {error}") from None
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFailed(f"cannot read {path}: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ImportFailed(f"{path}, line {number}: {error}") from None
            if not isinstance(row, dict):
                raise ImportFailed(f"{path}, line {number}: not a JSON object")
            yield row


def _lm_eval(row: Mapping[str, Any], number: int) -> Iterable[tuple[str, str, str]]:
    """Read `resps`, a list with one list of texts per request; its inner list holds k samples of a question."""
    del number
    for texts in row["resps"]:
        for text in texts if isinstance(texts, list) else [texts]:
            yield str(row["doc_id"]), str(row["target"]), _as_text(text)


def _lighteval(row: Mapping[str, Any], number: int) -> Iterable[tuple[str, str, str]]:
    doc, response = _object(row["doc"]), _object(row["model_response"])
    index = doc["gold_index"]
    gold = doc["choices"][index[0] if isinstance(index, list) else index]
    problem = str(doc.get("id") or number)
    for text in response["text"]:
        yield problem, str(gold), _as_text(text)


def _verl(row: Mapping[str, Any], number: int) -> Iterable[tuple[str, str, str]]:
    """Read rows with the prompt as text; its hash is the id, so that k samples of a problem share it."""
    from hashlib import sha256

    del number
    gold = row.get("gts", row.get("ground_truth", ""))
    problem = sha256(str(row["input"]).encode()).hexdigest()[:16]
    yield problem, str(gold), _as_text(row["output"])


def _object(value: Any) -> Mapping[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise TypeError("expected an object")
    return found


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a response is {type(value).__name__}, not text")
    return value
