"""`table_of`: pass@k of checkpoints at several temperatures, to separate new ability from sharpening.

A run's grid/MEMBER/summary.json holds k outcomes per question and temperature; pass@1 ... pass@k are unbiased estimates
from the same samples. MEMBER is a checkpoint of the run, or another origin's SFT checkpoint.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from analysis.drawing import style
from analysis.inputs.evaluation import read_evaluation
from analysis.tables.grid import DASH, Grid
from config.model import AnalysisSection
from records.errors import ConfigError
from records.evaluation import POOLED, RINGS, Score
from records.run_folder import SUMMARY
from records.stages import CHECKPOINTS
from records.statistics import num_samples_per_question, pass_at_k_by_question, score_interval

COLUMNS = ("member", "benchmark", "temperature", "k", "value", "low", "high", "num_questions")


def table_of(stored: Path, settings: AnalysisSection) -> pd.DataFrame:
    """Return one row per member, ring, temperature and k; empty when nothing is stored.

    Args:
        stored: a folder with one folder and summary per member, or its CSV.
        settings: confidence, and the seed of the bootstrap over questions.

    Raises:
        ConfigError: the CSV lacks a column.
    """
    if stored.is_file():
        try:
            table = pd.read_csv(stored)
        except (ValueError, OSError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"{stored}: is no CSV ({first}); is it pass_at_k.csv?") from None
        if missing := set(COLUMNS) - set(table.columns):
            raise ConfigError(
                f"{stored}: lacks the columns {', '.join(sorted(missing))}; is it pass_at_k.csv?"
            )
        numbers = table[["temperature", "k", "value", "low", "high", "num_questions"]]
        if table.empty or not all(map(is_numeric_dtype, numbers.dtypes)) or numbers.isna().any(axis=None):
            raise ConfigError(f"{stored}: holds no rows, or a field that is no number; is it pass_at_k.csv?")
        return table
    rows = [
        row
        for path in sorted(stored.glob(f"*/{SUMMARY}"))
        for score in read_evaluation(path.parent).summary.scores
        if score.benchmark in (*RINGS, POOLED) and score.metric.startswith("avg@")
        if (score.control, score.grader) == ("none", "strict")
        for row in pass_rows(path.parent.name, score, settings)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def pass_rows(member: str, score: Score, settings: AnalysisSection) -> list[dict[str, object]]:
    """Return pass@k of one score's outcomes for k = 1, 2, 4, ... with intervals over questions.

    >>> from config.resolve import resolve
    >>> from records.evaluation import Score
    >>> score = Score(checkpoint="sft", benchmark="procedural", metric="avg@2", temperature=1.0, control="none",
    ...               value=0.5, low=0.0, high=1.0, num_questions=2, num_samples=4, grader="strict",
    ...               questions={"a": [1, 0], "b": [1, 0]})
    >>> [(row["k"], row["value"]) for row in pass_rows("sft", score, resolve().analysis)]
    [(1, 0.5), (2, 1.0)]
    """
    most = num_samples_per_question(score.questions)
    rows = []
    for k in (2**power for power in range(most.bit_length())):
        by_question = pass_at_k_by_question(score.questions, k)
        interval = score_interval(
            {question: [value] for question, value in by_question.items()},
            seed=settings.seed,
            confidence=settings.confidence,
        )
        rows.append(
            {
                "member": member,
                "benchmark": score.benchmark,
                "temperature": score.temperature,
                "k": k,
                "value": sum(by_question.values()) / len(by_question),
                "low": interval.low,
                "high": interval.high,
                "num_questions": len(by_question),
            }
        )
    return rows


def grid_of(table: pd.DataFrame) -> Grid:
    """Return each member at each temperature, all rings together, pass@1 to pass@k."""
    pooled = table[table["benchmark"] == POOLED]
    sizes = sorted(set(pooled["k"]))
    groups: dict[str, list[list[str]]] = {}
    known = [name for name in CHECKPOINTS if name in set(pooled["member"])]
    members = known + sorted(set(pooled["member"]) - set(known))
    for temperature, member in product(sorted(set(pooled["temperature"])), members):
        part = pooled[(pooled["temperature"] == temperature) & (pooled["member"] == member)]
        by_k: dict[int, Any] = {row.k: row for row in part.itertuples()}
        # A lost sample makes the largest k of its question, and so of its checkpoint, one power of 2 smaller.
        rows = [by_k.get(k) for k in sizes]
        cells = [f"{100 * r.value:.1f} [{100 * r.low:.1f}, {100 * r.high:.1f}]" if r else DASH for r in rows]
        headroom = f"{100 * (rows[-1].value - rows[0].value):.1f}" if rows[0] and rows[-1] else DASH
        name = style.CHECKPOINT_LABELS.get(member, member)
        groups.setdefault(f"T = {temperature:g}", []).append([name, *cells, headroom])
    return Grid(
        name="pass_at_k",
        title="Chance that one of k samples is right",
        header=["checkpoint", *[f"pass@{k}" for k in sizes], "headroom"],
        groups=groups,
        note="All test rings, a seeded draw of questions each, all k from the same samples; intervals over "
        "questions. Headroom: pass at the largest k minus pass@1. Where RL raises pass@1 and not the last column, it "
        "sharpens what the SFT checkpoint could already reach.",
    )
