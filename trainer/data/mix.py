"""SFT conversations from the sources of a recipe (paper section 4.1): converted, counted, checked, mixed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from config.recipes import ConversationPart, ConversationSource
from records.data_card import FunnelStep
from records.seeds import derive_seed
from trainer.data.benchmarks import Hits
from trainer.data.converters import CONVERTERS
from trainer.data.curation import reasons_of, repeats
from trainer.data.decontamination import Entry
from trainer.data.mapping import Columns, rows_of
from trainer.data.problem_rules import hash64
from trainer.data.sources import RowFault, record_of, require_part

if TYPE_CHECKING:
    from datasets import Dataset, Features

NOT_MALFORMED = ("blank", "other_part", "too_long", "reasoning")
"""Reasons of rows that are whole and not taken."""


def columns() -> Features:
    """Columns of a converted row; `messages` and `functions` are those of `Conversation`."""
    from datasets import Features, List, Value

    text, number = Value("string"), Value("int64")
    call = {"name": text, "arguments": text}
    names = dict.fromkeys(("id", "source", "licence", "reason", "detail"), text)
    counts = dict.fromkeys(("number", "key", "num_calls", "num_results"), number)
    messages = List({"role": text, "text": text, "calls": List(call)})
    return Features(names | counts | {"functions": List(text), "messages": messages, "hit": Value("bool")})


class ReadConversations:
    """Row function: converts, counts calls, and asks whether a benchmark may be near."""

    def __init__(self, source: ConversationSource, part: ConversationPart, hits: Hits) -> None:
        self.source, self.part, self.hits = source, part, hits

    def __call__(self, batch: Columns, indices: list[int]) -> dict[str, list[Any]]:
        rows = [self._row(row, number) for row, number in zip(rows_of(batch), indices, strict=True)]
        return {name: [row[name] for row in rows] for name in columns()}

    def _row(self, row: Mapping[str, Any], number: int) -> dict[str, Any]:
        id = f"{self.source.name}-{number}"
        found: dict[str, Any] = {
            "id": id, "source": self.source.name, "licence": self.source.licence, "reason": "", "detail": "",
            "number": number, "key": number, "num_calls": 0, "num_results": 0, "functions": [], "messages": [],
            "hit": False,
        }  # fmt: skip
        try:
            record = record_of(row)
            require_part(record, self.source.where)
            made = CONVERTERS[self.source.conversion].convert(record, id, self.source.name)
            body = {
                name: value for name, value in made.to_json().items() if name in ("functions", "messages")
            }
            text = json.dumps(body, ensure_ascii=False)
            if len(text) > self.part.max_chars:
                raise RowFault("too_long", f"{len(text):,} characters")
            asked = "\n".join(message.text for message in made.messages if message.role == "user")
            found |= body | {
                "key": hash64(text),
                "num_calls": made.num_calls,
                "num_results": made.num_results,
            }
            found["hit"] = self.hits.hit(asked)
        except RowFault as fault:
            found["reason"], found["detail"] = fault.reason, fault.detail[:200]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """The conversations of a recipe."""

    rows: Dataset
    kept: npt.NDArray[np.int64]
    """Numbers of the rows that are left, shuffled."""
    funnel: list[FunnelStep]


def mix(converted: Sequence[Dataset], part: ConversationPart, hits: Hits, seed: int) -> Mixed:
    """Remove repeats and overlaps with benchmarks, cut each source to its share, shuffle."""
    from datasets import concatenate_datasets

    rows = concatenate_datasets(list(converted))
    counts = reasons_of(rows)
    left_count = sum(count for reason, count in counts.items() if reason != "blank")
    funnel = [FunnelStep(step="read", removed=0, left=left_count)]
    for reason in sorted(counts):
        if reason not in ("", "blank"):
            left_count -= counts[reason]
            funnel.append(FunnelStep(step=reason, removed=counts[reason], left=left_count))
    left = np.flatnonzero(np.array([reason == "" for reason in _column(rows, "reason")]))

    def drop(step: str, gone: npt.NDArray[np.int64]) -> None:
        nonlocal left
        left = left[~np.isin(left, gone)]
        funnel.append(FunnelStep(step=step, removed=len(gone), left=len(left)))

    drop("repeated", repeats(left, rows.data.column("key").to_numpy()))
    drop("in_a_benchmark", _contaminated(rows, left, hits))
    drop("over_its_share", _over_share(rows, left, part, seed))
    order = np.random.Generator(np.random.PCG64(derive_seed(seed, "conversations"))).permutation(len(left))
    return Mixed(rows=rows, kept=left[order], funnel=funnel)


def _column(rows: Dataset, name: str) -> Iterator[Any]:
    for chunk in rows.data.column(name).chunks:
        yield from chunk.to_pylist()


def _contaminated(rows: Dataset, left: npt.NDArray[np.int64], hits: Hits) -> npt.NDArray[np.int64]:
    if not hits.checked:
        return np.zeros(0, np.int64)
    near = left[rows.data.column("hit").to_numpy()[left]]
    for row in near:
        asked = [m["text"] for m in rows[int(row)]["messages"] if m["role"] == "user"]
        hits.add(Entry(id=str(row), text="\n".join(asked)))
    return np.array(sorted(int(row) for row in hits.contaminated()), np.int64)


def _over_share(
    rows: Dataset, left: npt.NDArray[np.int64], part: ConversationPart, seed: int
) -> npt.NDArray[np.int64]:
    import pyarrow.compute as pc

    removed = [np.zeros(0, np.int64)]
    sources = rows.data.column("source").combine_chunks()
    for source in part.sources:
        of = pc.equal(sources, source.name).to_numpy(zero_copy_only=False)
        here = left[of[left]]
        if source.at_most is not None and len(here) > source.at_most:
            stream = np.random.Generator(np.random.PCG64(derive_seed(seed, "share", source.name)))
            removed.append(here[stream.permutation(len(here))[source.at_most :]])
    return np.sort(np.concatenate(removed))
