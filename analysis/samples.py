"""Reading what was sampled: samples files (one trajectory per row) and token tables (one sampled token per row)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.runs import BadRun
from analysis.statistics import Outcomes
from trainer.types import CallKind, IdsSource, StopReason
from verifier.verdict import VerdictKind, reward_of

TOKEN_COLUMNS = (
    "run",
    "checkpoint",
    "benchmark",
    "problem",
    "sample",
    "turn",
    "index",
    "token_id",
    "text",
    "segment",
    "entropy",
    "logprob",
    "rank",
    "after_tool",
    "distance",
    "correct",
)
TRAJECTORY = ["benchmark", "problem", "sample"]
"""Columns that name one trajectory of a checkpoint's token table."""

PRIVATE = frozenset({"gpqa_diamond"})
"""Benchmarks whose texts must not appear in anything that is shown or published."""

_TRUNCATED = frozenset({StopReason.LENGTH, StopReason.CONTEXT, StopReason.MAX_TURNS})


def read_samples(path: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Rows of a samples file, as `Trajectory.to_json` wrote them.

    Raises:
        BadRun: Missing, or not a samples file.
    """
    table = _read(path, columns, "python -m verifier evaluate")
    rows = table.to_pylist()
    for row in rows:
        if "verdicts" in row:
            row["verdicts"] = {name: v for name, v in dict(row["verdicts"] or {}).items() if v is not None}
    return rows


def scored_samples(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples that avg@k is over: no control, the temperature nearest to 1, as many of each question.

    A samples file also holds those of controls, of other temperatures, and many more of some questions for pass@k.

    >>> plan = [("none", 0.6, 0), ("none", 1.0, 0), ("none", 1.0, 1), ("tool_off", 1.0, 0)]
    >>> rows = [{"benchmark": "b", "problem": "p", "control": c, "T": t, "sample": i} for c, t, i in plan]
    >>> rows.append({"benchmark": "b", "problem": "q", "control": "none", "T": 1.0, "sample": 0})
    >>> [(row["problem"], row["T"], row["sample"]) for row in scored_samples(rows)]
    [('p', 1.0, 0), ('q', 1.0, 0)]
    """
    plain = [row for row in rows if row["control"] == "none"]
    nearest: dict[str, float] = {}
    for row in plain:
        held = nearest.setdefault(row["benchmark"], row["T"])
        nearest[row["benchmark"]] = min(held, row["T"], key=lambda t: abs(t - 1.0))
    near = [row for row in plain if row["T"] == nearest[row["benchmark"]]]
    last: dict[tuple[str, str], int] = {}
    for row in near:
        question = row["benchmark"], row["problem"]
        last[question] = max(last.get(question, 0), row["sample"])
    fewest: dict[str, int] = {}
    for (benchmark, _), sample in last.items():
        fewest[benchmark] = min(fewest.get(benchmark, sample), sample)
    return [row for row in near if row["sample"] <= fewest[row["benchmark"]]]


def read_tokens(path: Path) -> pd.DataFrame:
    """A token table, sorted by trajectory and position.

    Raises:
        BadRun: Missing, or a column is absent.
    """
    frame = _read(path, None, "python -m trainer score").to_pandas()
    missing = [name for name in TOKEN_COLUMNS if name not in frame]
    if missing:
        raise BadRun(f"{path}: no column {', '.join(missing)}; write it with python -m trainer score")
    if frame.empty:
        raise BadRun(f"{path}: no token; score samples of at least one trajectory")
    frame["after_tool"] = frame["after_tool"].astype(object).where(frame["after_tool"].notna(), None)
    return frame.sort_values([*TRAJECTORY, "index"], ignore_index=True)


def outcomes(rows: Iterable[dict[str, Any]], grader: str = "strict") -> Outcomes:
    """Question -> outcomes in the order of samples; rows whose grading failed are left out, never scored 0.

    >>> row = {"problem": "p1", "sample": 0, "verdicts": {"strict": {"verdict": "correct"}}}
    >>> lost = {"problem": "p1", "sample": 1, "verdicts": {"strict": {"verdict": "infra_failed"}}}
    >>> outcomes([row, lost])
    {'p1': [1.0]}
    """
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda r: (r["problem"], r["sample"])):
        value = reward_of(VerdictKind(row["verdicts"][grader]["verdict"]))
        if value is not None:
            found.setdefault(row["problem"], []).append(value)
    return found


def behaviour(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """One row per sample: lengths, turns, calls, errors, stop reason, verdicts of both graders.

    A call that could not be parsed, named an unknown tool or whose code failed counts as failed (p_err's view).
    """
    return pd.DataFrame([_behaviour(row) for row in rows])


def sampled_only(rows: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Refuse rows whose ids were guessed from text: entropy at guessed positions means nothing.

    Raises:
        BadRun: A row with `ids_source: retokenised`.
    """
    guessed = sum(row["ids_source"] == IdsSource.RETOKENISED for row in rows)
    if guessed:
        raise BadRun(
            f"{path}: {guessed} rows hold re-tokenised ids; sample through an engine that returns ids"
        )
    return rows


def _behaviour(row: dict[str, Any]) -> dict[str, Any]:
    calls = [turn for turn in row["turns"] if turn["call"] != CallKind.NONE]
    run = [turn for turn in calls if turn["call"] != CallKind.EXECUTED or turn["result"] is not None]
    failed = [turn for turn in run if not _call_ok(turn)]
    verdicts = row["verdicts"]
    after_error = [t["start"] for t in row["turns"] if failed and t["start"] > failed[0]["start"]]
    return {
        "benchmark": row["benchmark"],
        "problem": row["problem"],
        "sample": row["sample"],
        "T": row["T"],
        "stop": str(row["stop"]),
        "truncated": row["stop"] in _TRUNCATED,
        "response_len": len(row["ids"]) - row["prompt_len"],
        "num_sampled": int(sum(row["mask"])),
        "num_turns": len(row["turns"]),
        "num_calls": len(run),
        "num_failed_calls": len(failed),
        "first_call_ok": _call_ok(run[0]) if run else None,
        "num_tokens_after_error": len(row["ids"]) - min(after_error) if after_error else 0,
        **{f"verdict_{name}": str(v["verdict"]) for name, v in sorted(verdicts.items())},
        **{f"extracted_{name}": v.get("extracted") for name, v in sorted(verdicts.items())},
    }


def _call_ok(turn: dict[str, Any]) -> bool:
    return (
        turn["call"] == CallKind.EXECUTED and turn["result"] is not None and turn["result"]["status"] == "ok"
    )


def _read(path: Path, columns: list[str] | None, writer: str) -> pa.Table:
    if not path.exists():
        raise BadRun(f"{path}: missing; write it with {writer}")
    try:
        return pq.read_table(path, columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadRun(f"{path}: not a Parquet file ({str(error).splitlines()[0]}); write it again") from None
