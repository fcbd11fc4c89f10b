"""Problems for RL from the sources of a recipe: the paper's rules, repeats, conflicts, benchmarks (section 4.2).

Rows are read, checked and hashed shard by shard on disk; what is held in memory is a few numbers per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from config.recipes import ProblemPart, ProblemSource
from records.data_card import FunnelStep, Survey
from records.seeds import derive_seed
from trainer.data.benchmarks import SECRET, Hits, words_key
from trainer.data.decontamination import Entry
from trainer.data.mapping import Columns, rows_of
from trainer.data.near_duplicates import BANDS, buckets_NB, near_duplicates
from trainer.data.problem_rules import MALFORMED, ORDER, hash64, normalised, read_problem

if TYPE_CHECKING:
    from datasets import Dataset, Features


def columns() -> Features:
    """Columns of a checked row."""
    from datasets import Features, Sequence, Value

    text, number = Value("string"), Value("int64")
    names = ("id", "problem", "answer", "source", "difficulty", "reason", "detail", "language")
    numbers = ("number", "key", "words_key", "answer_key", "id_key")
    return Features(
        dict.fromkeys(names, text)
        | dict.fromkeys(numbers, number)
        | {"hit": Value("bool"), "bands": Sequence(number, length=BANDS)}
    )


class ReadProblems:
    """Row function: rules, keys, signature, and whether a benchmark may be near."""

    def __init__(self, source: ProblemSource, part: ProblemPart, hits: Hits) -> None:
        self.source, self.part, self.hits = source, part, hits

    def __call__(self, batch: Columns, indices: list[int]) -> dict[str, list[Any]]:
        rows = [
            read_problem(row, number, self.source, self.part)
            for row, number in zip(rows_of(batch), indices, strict=True)
        ]
        good = [at for at, row in enumerate(rows) if not row["reason"]]
        signed = self.part.near_duplicate < 1.0
        bands = buckets_NB([rows[at]["problem"] for at in good]) if signed else None
        bands_of = dict(zip(good, bands, strict=True)) if bands is not None else {}
        none = np.zeros(BANDS, np.int64)
        for at, row in enumerate(rows):
            text = row["problem"]
            row["source"] = self.source.name
            row["key"], row["words_key"] = hash64(normalised(text)), words_key(text)
            row["answer_key"], row["id_key"] = hash64(row["answer"]), hash64(row["id"])
            row["hit"] = bool(text) and self.hits.hit(text)
            row["bands"] = bands_of.get(at, none)
        return {name: [row[name] for row in rows] for name in columns()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curated:
    """The problems of a recipe."""

    rows: Dataset
    """Every row of every source with its columns."""
    kept: npt.NDArray[np.int64]
    """Numbers of the rows that are left, shuffled."""
    funnel: list[FunnelStep]
    surveys: dict[str, Survey]
    conflicts: list[dict[str, str]]
    """Every row of a problem with several answers."""
    contaminated: list[dict[str, Any]]
    """Overlaps with a benchmark, each with its span."""


def reasons_of(rows: Dataset) -> dict[str, int]:
    """Rows by reason; the empty one is that of good rows."""
    import pyarrow.compute as pc

    counted = pc.value_counts(rows.data.column("reason").combine_chunks())
    return {row["values"]: row["counts"] for row in counted.to_pylist()}


def curate(
    checked: Sequence[Dataset],
    part: ProblemPart,
    hits: Hits,
    seed: int,
    matches: dict[str, int] | None,
) -> Curated:
    """Remove what the rules refuse, then repeats, conflicts, overlaps and unmatched problems; shuffle the rest.

    Args:
        checked: of each source, in the recipe's order; earlier sources win.
        part: the rules.
        hits: of all benchmarks; filled here.
        seed: of the shuffle.
        matches: problem id -> matches by the reference model; None: the rule is not applied.
    """
    from datasets import concatenate_datasets

    rows = concatenate_datasets(list(checked))
    numbers = {name: _numbers(rows, name) for name in ("key", "answer_key", "id_key", "words_key", "hit")}
    surveys = _surveys(rows, part, hits, numbers)
    funnel: list[FunnelStep] = []
    left = _by_reason(rows, funnel)
    conflicting = conflicts(left, numbers["key"], numbers["answer_key"])
    listed = [
        {name: row[name] for name in ("id", "source", "answer", "problem")}
        for row in rows.select(conflicting)
    ]

    def drop(step: str, gone: npt.NDArray[np.int64]) -> None:
        nonlocal left
        left = left[~np.isin(left, gone)]
        funnel.append(FunnelStep(step=step, removed=len(gone), left=len(left)))

    drop("conflicting_answers", conflicting)
    drop("repeated_problem", repeats(left, numbers["key"]))
    twins = near_duplicates(left, numbers["answer_key"], _bands(rows), _text(rows), part.near_duplicate)
    drop("near_duplicate", np.array(sorted(twins), np.int64))
    removed = hits.contaminated()
    drop("in_a_benchmark", np.array([row for row in left if str(row) in removed], np.int64))
    if part.matches is not None and matches is not None:
        drop("too_few_matches", _unmatched(rows, left, part, matches))
    drop("repeated_id", repeats(left, numbers["id_key"]))
    order = np.random.Generator(np.random.PCG64(derive_seed(seed, "problems"))).permutation(len(left))
    return Curated(
        rows=rows, kept=left[order], funnel=funnel, surveys=surveys, conflicts=listed,
        contaminated=_contaminated(rows, hits),
    )  # fmt: skip


def conflicts(
    rows: npt.NDArray[np.int64], keys: npt.NDArray[np.int64], answers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Rows whose problem occurs with another answer, ascending.

    >>> conflicts(np.arange(4), np.array([7, 7, 8, 8]), np.array([1, 1, 1, 2])).tolist()
    [2, 3]
    """
    order = np.lexsort((answers[rows], keys[rows]))
    key, answer = keys[rows][order], answers[rows][order]
    new_key = np.concatenate(([True], np.diff(key) != 0))[: len(key)]
    new_answer = new_key | np.concatenate(([True], np.diff(answer) != 0))[: len(key)]
    group = np.cumsum(new_key) - 1
    several = np.bincount(group, weights=new_answer, minlength=1) > 1
    return np.sort(rows[order][several[group]]) if len(rows) else rows


def repeats(rows: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows after the first of each key, ascending.

    >>> repeats(np.arange(4), np.array([5, 6, 5, 5])).tolist()
    [2, 3]
    """
    _, first = np.unique(keys[rows], return_index=True)
    return np.delete(rows, first)


def _by_reason(rows: Dataset, funnel: list[FunnelStep]) -> npt.NDArray[np.int64]:
    """Rows without a reason; each reason becomes a step."""
    counts = reasons_of(rows)
    left = sum(count for reason, count in counts.items() if reason != "blank")
    funnel.append(FunnelStep(step="read", removed=0, left=left))
    for reason in ORDER[1:]:
        if removed := counts.get(reason, 0):
            left -= removed
            funnel.append(FunnelStep(step=reason, removed=removed, left=left))
    import pyarrow.compute as pc

    return np.flatnonzero(pc.equal(rows.data.column("reason"), "").to_numpy())


def _surveys(
    rows: Dataset, part: ProblemPart, hits: Hits, numbers: dict[str, npt.NDArray]
) -> dict[str, Survey]:
    """Survey of each source; feeds every row that may overlap to the indices, source by source."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, Survey] = {}
    source = rows.data.column("source").combine_chunks()
    unread = pa.array(["blank", *MALFORMED, "other_part", "too_long"])
    readable = ~pc.is_in(rows.data.column("reason"), unread).to_numpy()
    negative = pc.starts_with(rows.data.column("answer"), "-").to_numpy()
    for spec in part.sources:
        of = pc.equal(source, spec.name).to_numpy(zero_copy_only=False)
        here = np.flatnonzero(of & readable)
        languages = pc.value_counts(rows.data.column("language").combine_chunks().take(pa.array(here)))
        alone = Hits(hits.checked)
        for row in here[numbers["hit"][here]]:
            record = rows[int(row)]
            entry = Entry(id=str(row), text=record["problem"], answer=record["answer"])
            hits.add(entry)
            if len(part.sources) > 1:
                alone.add(entry)
        seen = alone if len(part.sources) > 1 else hits
        clash = conflicts(here, numbers["key"], numbers["answer_key"])
        found[spec.name] = Survey(
            languages={str(r["values"]): r["counts"] for r in languages.to_pylist()},
            num_negative=int(negative[here].sum()),
            num_unique=len(np.unique(numbers["key"][here])),
            num_conflicting=len(np.unique(numbers["key"][clash])),
            overlaps=seen.reports(frozenset(numbers["words_key"][here].tolist())) if hits.checked else [],
        )
    return found


def _unmatched(
    rows: Dataset, left: npt.NDArray[np.int64], part: ProblemPart, matches: dict[str, int]
) -> npt.NDArray[np.int64]:
    assert part.matches is not None
    judged = set(part.matches.sources)
    ids, sources = rows.select_columns(["id"]), rows.select_columns(["source"])
    return np.array(
        [
            row
            for row in left
            if sources[int(row)]["source"] in judged
            and matches.get(ids[int(row)]["id"], 0) < part.matches.least
        ],
        np.int64,
    )


def _contaminated(rows: Dataset, hits: Hits) -> list[dict[str, Any]]:
    listed = []
    for name, row in hits.overlaps():
        record = rows[int(row.train_id)]
        shown = {"span": "", "span_words": 0} if name == SECRET else {}
        known = {"benchmark": name, "train_id": record["id"], "source": record["source"]}
        listed.append(row.to_json() | known | shown)
    return listed


def _numbers(rows: Dataset, name: str) -> npt.NDArray:
    return rows.data.column(name).to_numpy()


def _bands(rows: Dataset) -> Callable[[int], npt.NDArray[np.int64]]:
    def band_of(band: int) -> npt.NDArray[np.int64]:
        chunks = rows.data.column("bands").chunks
        return np.concatenate(
            [chunk.flatten().to_numpy().reshape(-1, BANDS)[:, band].copy() for chunk in chunks]
        )

    return band_of


def _text(rows: Dataset) -> Callable[[int], str]:
    texts = rows.select_columns(["problem"])
    return lambda row: texts[row]["problem"]
