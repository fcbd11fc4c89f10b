"""`read_sample_table`: a samples file as one small row per sample, read in batches to bound memory.

It skips texts, and reads ids only to hash them. It checks every word of a closed set (verdict, stop, call, status) and
refuses an unknown one, which a count would book as the model's failure or success.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from config.model import Control
from records.errors import ConfigError
from records.tool_call import Status
from records.trajectory import SCHEMA_VERSION, CallKind, IdsSource, StopReason, call_failed
from records.verdict import VerdictKind

KEY = ["benchmark", "control", "T", "problem", "sample"]
"""Columns that name one sample of an evaluation."""
GRADERS = ("strict", "rstar_compat", "loose")

_TRUNCATED = [StopReason.LENGTH, StopReason.CONTEXT, StopReason.MAX_TURNS]
_FLAT = ("run", "checkpoint", "benchmark", "problem", "sample", "control", "T", "stop", "prompt_len",
         "ids_source", "schema_version")  # fmt: skip
_NESTED = ("ids", "turns.call", "turns.result.status", "verdicts.strict.verdict")
_WORDS: tuple[tuple[str, type[StrEnum]], ...] = (
    ("stop", StopReason), ("control", Control), ("ids_source", IdsSource),
)  # fmt: skip
_OUTCOME: dict[tuple[str, str | None], bool | None] = {
    (call.value, status and status.value): call_failed(call, status)
    for call in CallKind
    for status in (None, *Status)
}
"""Kind of call and status of its program, as words of the file -> whether it failed."""
_BATCH = 2048
_REMEDY = "write it again with python -m evaluation run"


def read_sample_table(path: Path) -> pd.DataFrame:
    """Return one row per sample, in the file's order.

    Returns:
        Columns run, checkpoint, benchmark, problem, sample, control, T, stop, ids_source, prompt_len, response_len,
        truncated, num_turns, num_calls, num_failed_calls (not parsed, of an unknown tool, or code that did not end
        well), prompt_hash and ids_hash (64 bits), and verdict_NAME of each grader in the file (None: not graded by it).

    Raises:
        ConfigError: Missing, no samples file, an unknown word, or a sample that comes twice.
    """
    if not path.exists():
        raise ConfigError(f"{path}: missing; write it with python -m evaluation run")
    try:
        with pq.ParquetFile(path) as file:
            leaves = _leaves(file, path)
            batches = file.iter_batches(batch_size=_BATCH, columns=leaves)
            frames = [_frame(batch, path) for batch in batches]
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: not a Parquet file ({_first(error)}); {_REMEDY}") from None
    if not frames:
        raise ConfigError(f"{path}: no sample; {_REMEDY}")
    return _checked(pd.concat(frames, ignore_index=True), path)


def scored_samples(table: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of avg@k: no control, the temperature nearest to 1, equally many per question.

    A samples file also holds those of controls, of other temperatures, and more samples of some questions for pass@k.

    >>> plan = [("p", "none", 0.6, 0), ("p", "none", 1.0, 0), ("p", "none", 1.0, 1), ("p", "tool_off", 1.0, 0)]
    >>> table = pd.DataFrame([*plan, ("q", "none", 1.0, 0)], columns=["problem", "control", "T", "sample"])
    >>> found = scored_samples(table.assign(benchmark="b"))
    >>> found[["problem", "T", "sample"]].to_numpy().tolist()
    [['p', 1.0, 0], ['q', 1.0, 0]]
    """
    plain = table[table["control"] == "none"]
    distance = (plain["T"] - 1.0).abs()
    near = plain[distance == distance.groupby(plain["benchmark"], observed=True).transform("min")]
    # Of two temperatures as near, the lower.
    near = near[near["T"] == near.groupby("benchmark", observed=True)["T"].transform("min")]
    last = near.groupby(["benchmark", "problem"], observed=True)["sample"].max()
    fewest = last.groupby(level="benchmark", observed=True).min()
    return near[near["sample"] <= near["benchmark"].astype(object).map(fewest)]


def graded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the samples that the suite did not lose; a lost sample is no evidence about the model."""
    lost = (table["verdict_strict"] == VerdictKind.INFRA_FAILED) | (table["stop"] == StopReason.ABORTED)
    return table[~lost]


def _leaves(file: pq.ParquetFile, path: Path) -> list[str]:
    """Return the names of the leaf columns to read, as the file spells them."""
    spelled = {}
    for number in range(len(file.schema)):
        leaf = file.schema.column(number).path
        spelled.setdefault(leaf.replace(".list.element", "").replace(".list.item", ""), leaf)
    required = [*_FLAT, *_NESTED]
    missing = [name for name in required if name not in spelled]
    if missing:
        raise ConfigError(f"{path}: no column {', '.join(missing)}; {_REMEDY}")
    others = [f"verdicts.{name}.verdict" for name in GRADERS[1:]]
    return [spelled[name] for name in [*required, *others] if name in spelled]


def _frame(batch: pa.RecordBatch, path: Path) -> pd.DataFrame:
    """Return the small rows of one batch."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in (*_FLAT, "ids", "turns", "verdicts"):
        if columns[name].null_count:
            raise ConfigError(f"{path}: column {name} is empty in a row; {_REMEDY}")
    prompt_len = columns["prompt_len"].to_numpy(zero_copy_only=False).astype(np.int64)
    length = pc.list_value_length(columns["ids"]).to_numpy(zero_copy_only=False).astype(np.int64)
    if (prompt_len > length).any() or (prompt_len < 0).any():
        raise ConfigError(f"{path}: a prompt is longer than its trajectory; {_REMEDY}")
    prompt_hash, ids_hash = _hashes(columns["ids"], prompt_len)
    frame = pd.DataFrame({name: columns[name].to_pandas() for name in _FLAT})
    verdicts = columns["verdicts"]
    for name in (field.name for field in verdicts.type):
        words = pc.struct_field(verdicts, [name, "verdict"])
        frame[f"verdict_{name}"] = words.to_pandas().astype(object).where(words.is_valid().to_pandas(), None)
    return frame.assign(
        response_len=length - prompt_len,
        prompt_hash=prompt_hash,
        ids_hash=ids_hash,
        **_calls(columns["turns"], len(frame), path),
    )


def _hashes(ids: pa.ListArray, prompt_len: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return 64-bit hashes of each row's prompt and of all its ids."""
    values = ids.values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    bounds = ids.offsets.to_numpy()
    hashes = np.empty((2, len(ids)), dtype=np.uint64)
    for row, (start, stop, prompt) in enumerate(zip(bounds, bounds[1:], prompt_len, strict=False)):
        hashes[0, row] = _hash(values[start : start + prompt])
        hashes[1, row] = _hash(values[start:stop])
    return hashes[0], hashes[1]


def _hash(values: np.ndarray) -> int:
    return int.from_bytes(hashlib.blake2b(values.tobytes(), digest_size=8).digest(), "little")


def _calls(turns: pa.ListArray, num_rows: int, path: Path) -> dict[str, np.ndarray]:
    """Return turns, calls and failed calls of each row."""
    row = pc.list_parent_indices(turns).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(turns)
    call = pc.struct_field(flat, "call").to_pandas().astype(object)
    status = pc.struct_field(flat, ["result", "status"]).to_pandas().astype(object)
    _require(call.dropna().unique(), CallKind, "call", path)
    _require(status.dropna().unique(), Status, "status", path)
    if call.isna().any():
        raise ConfigError(f"{path}: a turn has no call kind; {_REMEDY}")
    outcome = [_OUTCOME[pair] for pair in zip(call, status.where(status.notna(), None), strict=True)]
    counted = np.array([failed is not None for failed in outcome], dtype=bool)
    failed = np.array([bool(failed) for failed in outcome], dtype=bool)
    return {
        "num_turns": np.bincount(row, minlength=num_rows),
        "num_calls": np.bincount(row[counted], minlength=num_rows),
        "num_failed_calls": np.bincount(row[failed], minlength=num_rows),
    }


def _checked(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Refuse unknown words, another schema, several checkpoints or runs, and doubled keys."""
    for name, words in _WORDS:
        _require(table[name].unique(), words, name, path)
    for name in _verdicts(table):
        _require(table[name].dropna().unique(), VerdictKind, "verdict", path)
    if table["verdict_strict"].isna().any():
        raise ConfigError(f"{path}: a sample has no strict verdict; {_REMEDY}")
    versions = set(table["schema_version"]) - {SCHEMA_VERSION}
    if versions:
        raise ConfigError(
            f"{path}: schema_version {min(versions)}, this code reads {SCHEMA_VERSION}; {_REMEDY}"
        )
    for name in ("run", "checkpoint"):
        if table[name].nunique() > 1:
            raise ConfigError(
                f"{path}: samples of several {name}s ({_some(table[name].unique())}); {_REMEDY}"
            )
    if not np.isfinite(table["T"]).all() or (table["T"] < 0).any() or (table["sample"] < 0).any():
        raise ConfigError(f"{path}: a temperature or sample number is no number from 0 up; {_REMEDY}")
    twice = table[table.duplicated(KEY)]
    if len(twice):
        one = twice.iloc[0]
        raise ConfigError(
            f"{path}: {len(twice)} samples come twice, the first is {one['benchmark']} {one['problem']} sample "
            f"{one['sample']}; {_REMEDY}"
        )
    table["truncated"] = table["stop"].isin(_TRUNCATED)
    for name in ("run", "checkpoint", "benchmark", "control", "stop", "ids_source", "problem"):
        table[name] = table[name].astype("category")
    for name in _verdicts(table):
        table[name] = table[name].astype("category")
    return table.drop(columns="schema_version")


def _verdicts(table: pd.DataFrame) -> list[str]:
    return [str(name) for name in table.columns if str(name).startswith("verdict_")]


def _require(found: Iterable[object], words: type[StrEnum], what: str, path: Path) -> None:
    unknown = sorted(str(word) for word in set(found) - {word.value for word in words})
    if unknown:
        raise ConfigError(
            f"{path}: {what} {unknown[0]!r} is unknown (known: {', '.join(words)}); {_REMEDY}, or read it with the "
            "version that wrote it"
        )


def _some(names: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, names))[:3])


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
