"""`read_tokens` and `read_turns`: checked token tables (one sampled token per row), and tool responses of traces."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.inputs.runs import Run
from records.errors import ConfigError
from records.evaluation import EvaluationSummary
from records.files import read_json, require_digest
from records.manifest import MANIFEST, Manifest
from records.token_table import AFTER_TOOL, SCHEMA

TRAJECTORY = ["benchmark", "problem", "sample"]
"""Columns that name one trajectory of a checkpoint's token table."""

PRIVATE = frozenset({"gpqa_diamond"})
"""Benchmarks whose texts must not be shown or published."""

SEGMENTS = frozenset({"reason", "post_tool_reasoning", "tool_call", "answer", "other"})
MOST_NATS = 31 * math.log(2)
"""Entropy of 2^31 equally likely tokens: the bound if the size of the vocabulary is not recorded."""
ROUNDING = 1e-3
"""Nats by which a float32 sum may exceed a bound."""
_REMEDY = "write it again with python -m trainer score"

Key = tuple[str, str, int]


def read_scored(run: Run, checkpoint: str) -> pd.DataFrame:
    """Return the token table of a checkpoint, checked against its manifest, its samples and the vocabulary.

    Raises:
        ConfigError: Missing, damaged, of another checkpoint, or made from other samples.
    """
    path = run.folder.tokens(checkpoint)
    manifest = Manifest.load(path.parent)
    require_digest(path, manifest.files.get(path.name), path.with_name(MANIFEST), _REMEDY)
    evaluation = run.folder.evaluation(checkpoint)
    evaluated = evaluation in run.evaluations()
    if evaluated and manifest.data != EvaluationSummary.load(evaluation).samples_sha256:
        raise ConfigError(f"{path}: was made from other samples than those of {evaluation}; {_REMEDY}")
    config = read_json(run.folder.checkpoint(checkpoint) / "config.json", default={})
    vocab_size = manifest.facts.get("vocab_size", config.get("vocab_size"))
    tokens = read_tokens(path, vocab_size if isinstance(vocab_size, int) else None)
    others = sorted(set(tokens["checkpoint"]) - {checkpoint})
    if others:
        raise ConfigError(f"{path}: holds tokens of checkpoint {others[0]}, not of {checkpoint}; {_REMEDY}")
    return tokens


def read_tokens(path: Path, vocab_size: int | None = None) -> pd.DataFrame:
    """Return a token table, sorted by trajectory and position.

    Args:
        path: path of the Parquet file.
        vocab_size: entropies are at most its logarithm.

    Raises:
        ConfigError: Missing, a column is absent, or an impossible row, which the message names.
    """
    frame = _read(path).to_pandas()
    missing = [name for name in SCHEMA.names if name not in frame]
    if missing:
        raise ConfigError(f"{path}: no column {', '.join(missing)}; {_REMEDY}")
    if frame.empty:
        raise ConfigError(f"{path}: no token; score samples of at least one trajectory")
    frame["after_tool"] = frame["after_tool"].astype(object).where(frame["after_tool"].notna(), None)
    try:
        frame = frame.sort_values([*TRAJECTORY, "index"], ignore_index=True)
        _check_values(frame, path, MOST_NATS if vocab_size is None else math.log(vocab_size))
        _check_positions(frame, path)
    except (TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: a column is of another type ({error}); {_REMEDY}") from None
    return frame


def _check_values(tokens: pd.DataFrame, path: Path, most: float) -> None:
    """Check that every entropy, log-prob and rank is possible, and that every word is known."""
    entropy, logprob = (tokens[name].to_numpy(dtype=float) for name in ("entropy", "logprob"))
    required = tokens[["run", "checkpoint", *TRAJECTORY, "turn", "index", "token_id", "segment", "text"]]
    for bad, what in (
        (required.isna().any(axis=1), "an empty field"),
        (~np.isfinite(entropy), "an entropy that is no number"),
        (entropy < 0, "a negative entropy"),
        (entropy > most + ROUNDING, f"an entropy above {most:.3f} nats, the most its vocabulary allows"),
        (~(np.isfinite(logprob) & (logprob <= ROUNDING)), "a log-prob that is none"),
        (~(tokens["rank"] >= 0), "a rank below 0"),
        (~tokens["segment"].isin(list(SEGMENTS)), "an unknown segment"),
        (
            tokens["after_tool"].notna() & ~tokens["after_tool"].isin(list(AFTER_TOOL)),
            "an unknown after_tool",
        ),
        (tokens["correct"].isna(), "no word on whether its answer is right"),
    ):
        _refuse(tokens, np.asarray(bad), what, path)
    for name in ("run", "checkpoint"):
        if tokens[name].nunique() > 1:
            raise ConfigError(f"{path}: tokens of several {name}s; {_REMEDY}")


def _check_positions(tokens: pd.DataFrame, path: Path) -> None:
    """Check that each position occurs once, each turn has no gap, and `distance` counts from its first token."""
    key = [*TRAJECTORY, "turn"]
    _refuse(tokens, tokens.duplicated([*TRAJECTORY, "index"]).to_numpy(), "a position that comes twice", path)
    groups = tokens.groupby(key, sort=False)
    place = groups.cumcount()
    gap = tokens["index"] != groups["index"].transform("min") + place
    _refuse(tokens, gap.to_numpy(), "a gap before it", path)
    after, distance = tokens["after_tool"].notna(), tokens["distance"]
    wrong = (after != distance.notna()) | (after & (distance != place))
    _refuse(tokens, wrong.to_numpy(), "a distance that is not its place in the turn", path)


def _refuse(tokens: pd.DataFrame, bad: np.ndarray, what: str, path: Path) -> None:
    if bad.any():
        row = tokens.iloc[int(np.flatnonzero(bad)[0])]
        raise ConfigError(
            f"{path}: {int(bad.sum())} tokens have {what}, the first is {row['benchmark']} {row['problem']} sample "
            f"{row['sample']} position {row['index']}; {_REMEDY}"
        )


def read_turns(path: Path, keys: Collection[Key]) -> list[dict[str, Any]]:
    """Return the turns of some trajectories of a samples file: no control, the temperature nearest to 1.

    Raises:
        ConfigError: Missing, or not a samples file.
    """
    columns = ["benchmark", "problem", "sample", "control", "T", "turns"]
    found: dict[Key, dict[str, Any]] = {}
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024, columns=columns):
                names = batch.select(columns[:5]).to_pylist()
                for number, row in enumerate(names):
                    key = row["benchmark"], row["problem"], row["sample"]
                    if key not in keys or row["control"] != "none":
                        continue
                    if key not in found or abs(row["T"] - 1) < abs(found[key]["T"] - 1):
                        found[key] = row | {"turns": batch.column("turns")[number].as_py()}
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(
            f"{path}: not a samples file ({_first(error)}); evaluate the checkpoint again"
        ) from None
    return list(found.values())


def _read(path: Path) -> pa.Table:
    if not path.exists():
        raise ConfigError(f"{path}: missing; write it with python -m trainer score")
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: not a Parquet file ({_first(error)}); {_REMEDY}") from None


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
