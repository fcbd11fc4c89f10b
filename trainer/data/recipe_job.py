"""`build`: a recipe's sources into problems.parquet, conversations.parquet and their card. Resumes after a kill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from config.recipes import (
    ConversationPart,
    ConversationSource,
    MatchRule,
    ProblemPart,
    Recipe,
    Rewritten,
    SourceSpec,
)
from records.data_card import CARD, DataCard, FunnelStep, Part, SourceCard, Survey
from records.digest import digest
from records.errors import ConfigError
from records.files import write_text
from records.fingerprint import fingerprint
from records.stored import write_record
from trainer.data.benchmarks import Checked, Hits, reachable, reported
from trainer.data.card import markdown
from trainer.data.curation import ReadProblems, curate, reasons_of
from trainer.data.curation import columns as problem_columns
from trainer.data.mapping import ROWS_PER_SHARD, RowFunction, map_rows
from trainer.data.mix import NOT_MALFORMED, ReadConversations, mix
from trainer.data.mix import columns as conversation_columns
from trainer.data.problem_rules import MALFORMED
from trainer.data.solve_rates import read_rates
from trainer.data.sources import identity, open_rows, place_of

if TYPE_CHECKING:
    from datasets import Dataset, Features

    from trainer.jobs.work_folder import WorkDir

FORMAT = 1
PROBLEMS = "problems.parquet"
CONVERSATIONS = "conversations.parquet"
CARD_PAGE = "card.md"
CONFLICTS = "conflicts.jsonl"
OVERLAPS = "in_benchmarks.jsonl"
FAULTS = "malformed.jsonl"
PROBLEM_COLUMNS = ("id", "problem", "answer", "source", "difficulty")
CONVERSATION_COLUMNS = ("id", "source", "licence", "functions", "messages")
GROUP = 10_000
"""Rows of a row group of a Parquet file, and of one write."""
MOST_MALFORMED_FRAC = 0.5
"""More broken rows than this mean that the source has changed, not that it has a few bad rows."""


class Rewriting(Protocol):
    """Rewrites prompts or responses (`trainer.sft.rewriting`)."""

    model: str

    def fill(self, conversations: Iterable[tuple[Rewritten, Sequence[Mapping[str, Any]]]]) -> int:
        """Rewrite every conversation that is not rewritten yet."""
        ...

    def rewritten(self, kind: Rewritten, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The messages of a conversation that `fill` has rewritten."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is built, and from where."""

    name: str
    recipe: Recipe
    data: Path | None
    """runtime.paths.data."""
    limit: int | None = None
    """Rows of each source."""
    workers: int = 1
    """Processes; they change no byte."""
    shard: int = ROWS_PER_SHARD
    """Rows that a killed job repeats at most; they change no byte."""
    rewriter: Rewriting | None = None
    """Rewrites what the recipe marks; None: it stays as it is, and the card states so."""

    @property
    def fingerprint(self) -> str:
        """All that decides the result, benchmark files excepted: `reachable` reads those again."""
        sources = [identity(source, self.data) for source in self.recipe.sources]
        model = None if self.rewriter is None else self.rewriter.model
        return fingerprint(FORMAT, self.recipe.model_dump(mode="json"), sources, self.limit, model)


@dataclass(frozen=True, slots=True)
class _Read:
    """A source after its row function."""

    spec: SourceSpec
    rows: Dataset
    malformed: dict[str, int]
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Made:
    """One part of the result."""

    sources: list[SourceCard]
    funnel: list[FunnelStep]
    read: list[_Read]
    facts: dict[str, Any]


def build(order: Order, work: WorkDir, made: Path) -> DataCard:
    """Write the files of a recipe into `made`.

    Args:
        order: what is built.
        work: of this order's fingerprint; keeps finished shards between attempts.
        made: folder of the result.

    Raises:
        ConfigError: a source cannot be reached, has changed, or the disk is full.
    """
    recipe = order.recipe
    with _room_on_disk():
        compares = any(part and part.decontaminate for part in (recipe.conversations, recipe.problems))
        benchmarks, absent = reachable(order.data) if compares else ([], [])
        parts: dict[Part, _Made] = {}
        if recipe.conversations is not None:
            parts["conversations"] = _conversations(order, recipe.conversations, benchmarks, work, made)
        if recipe.problems is not None:
            parts["problems"] = _problems(order, recipe.problems, benchmarks, work, made)
        read = [each for part in parts.values() for each in part.read]
        _write_lines(made / FAULTS, (row for each in read for row in _kept_aside(each)))
        facts = {name: value for part in parts.values() for name, value in part.facts.items()}
        card = DataCard(
            title=recipe.title,
            recipe=order.name,
            recipe_digest=digest(recipe.model_dump(mode="json")),
            seed=recipe.seed,
            limit=order.limit,
            sources=[source for part in parts.values() for source in part.sources],
            funnels={name: part.funnel for name, part in parts.items()},
            checked_against=[each.name for each in benchmarks],
            not_checked=absent,
            **({"num_conflicts": 0, "rewriting": "no conversations", "matches": "no problems"} | facts),
        )
        write_record(made / CARD, card)
        write_text(made / CARD_PAGE, markdown(card))
        return card


def _problems(order: Order, part: ProblemPart, benchmarks: list[Checked], work: WorkDir, made: Path) -> _Made:
    checked = list(benchmarks) if part.decontaminate else []
    folder = order.data or Path()
    also = [reported(each.name, folder / each.file) for each in part.also_report]
    hits = Hits([*checked, *(each for each in also if each is not None)])
    read = [
        _read(order, source, work, ReadProblems(source, part, hits), problem_columns(), MALFORMED)
        for source in part.sources
    ]
    matches, note = _matches(part.matches, order.data)
    curated = curate([each.rows for each in read], part, hits, order.recipe.seed, matches)
    if not len(curated.kept):
        raise ConfigError(
            f"recipe {order.name}: the rules leave no problem; the last that removed any: "
            f"{next((step.step for step in reversed(curated.funnel) if step.removed), 'none')}"
        )
    _write_parquet(curated.rows, curated.kept, PROBLEM_COLUMNS, made / PROBLEMS)
    _write_lines(made / CONFLICTS, curated.conflicts)
    _write_lines(made / OVERLAPS, curated.contaminated)
    kept = _by_source(curated.rows, curated.kept)
    cards = [_source_card(order, each, "problems", kept, curated.surveys[each.spec.name]) for each in read]
    return _Made(cards, curated.funnel, read, {"matches": note, "num_conflicts": len(curated.conflicts)})


def _conversations(
    order: Order, part: ConversationPart, benchmarks: list[Checked], work: WorkDir, made: Path
) -> _Made:
    hits = Hits(benchmarks if part.decontaminate else [])
    not_malformed = NOT_MALFORMED
    read = [
        _read(
            order, source, work, ReadConversations(source, part, hits), conversation_columns(), not_malformed
        )
        for source in part.sources
    ]
    mixed = mix([each.rows for each in read], part, hits, order.recipe.seed)
    if not len(mixed.kept):
        raise ConfigError(f"recipe {order.name}: no conversation is left; {FAULTS} lists why")
    _write_parquet(mixed.rows, mixed.kept, CONVERSATION_COLUMNS, made / CONVERSATIONS)
    rewriting = _rewrite(order, part, made / CONVERSATIONS)
    kept = _by_source(mixed.rows, mixed.kept)
    cards = [_source_card(order, each, "conversations", kept, None) for each in read]
    facts = {
        "num_calls": _total(mixed.rows, mixed.kept, "num_calls"),
        "num_results": _total(mixed.rows, mixed.kept, "num_results"),
        "rewriting": rewriting,
    }
    return _Made(cards, mixed.funnel, read, facts)


def _rewrite(order: Order, part: ConversationPart, path: Path) -> str:
    """Rewrite the marked sources in a finished file; returns the line of the card."""
    marked: dict[str, Rewritten] = {
        source.name: source.rewrite for source in part.sources if source.rewrite is not None
    }
    named = ", ".join(f"{kind} of {name}" for name, kind in marked.items())
    if not marked:
        return "the recipe asks for none"
    if order.rewriter is None:
        return f"not done: the paper's o4-mini rewrote {named}; `prepare --rewrite URL` does it with a server"
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rows = table.select(["source", "messages"]).to_pylist()
    order.rewriter.fill(
        (kind, row["messages"]) for row in rows if (kind := marked.get(row["source"])) is not None
    )
    messages = [
        order.rewriter.rewritten(kind, row["messages"])
        if (kind := marked.get(row["source"]))
        else row["messages"]
        for row in rows
    ]
    at = table.schema.get_field_index("messages")
    changed = table.set_column(at, "messages", pa.array(messages, table.schema.field(at).type))
    pq.write_table(changed, path, compression="zstd", row_group_size=GROUP)
    return f"{named}, by {order.rewriter.model}"


def _read(
    order: Order,
    spec: SourceSpec,
    work: WorkDir,
    function: RowFunction,
    features: Features,
    reasons: Collection[str],
) -> _Read:
    """Map one source. `reasons`: those of a malformed row for problems, of any other row for conversations."""
    rows = open_rows(spec, order.data, work.path / "arrow")
    if order.limit is not None:
        rows = rows.select(range(min(order.limit, len(rows))))
    mapped = map_rows(
        rows,
        function,
        features=features,
        folder=work.path / "shards" / spec.name,
        workers=order.workers,
        shard=order.shard,
        identity=f"{order.fingerprint[:16]}-{spec.name}",
    )
    counts = reasons_of(mapped)
    is_conversation = isinstance(spec, ConversationSource)
    bad = {
        reason: count
        for reason, count in sorted(counts.items())
        if reason and (reason in reasons) != is_conversation
    }
    total = sum(count for reason, count in counts.items() if reason != "blank")
    refuse_changed(spec.name, bad, total)
    return _Read(spec, mapped, bad, total)


def refuse_changed(name: str, malformed: Mapping[str, int], total: int) -> None:
    """Raise ConfigError when a source has no rows, or more broken ones than a set of its format would have."""
    if total == 0:
        raise ConfigError(f"source {name}: holds no rows; put the whole file in place")
    if sum(malformed.values()) > MOST_MALFORMED_FRAC * total:
        worst = max(malformed, key=lambda reason: malformed[reason])
        raise ConfigError(
            f"source {name}: {sum(malformed.values()):,} of {total:,} rows cannot be read, most of them for {worst}; "
            "the set is not in the form that the recipe states: correct its columns, conversion or revision"
        )


def _source_card(
    order: Order, read: _Read, part: Part, kept: Mapping[str, int], survey: Survey | None
) -> SourceCard:
    spec = read.spec
    is_file = place_of(spec, order.data).path is not None
    return SourceCard(
        name=spec.name,
        part=part,
        place=spec.file if is_file else f"{spec.hub}@{spec.revision or 'unpinned'}",
        identity=identity(spec, order.data),
        pinned=is_file or spec.is_pinned,
        licence=spec.licence,
        non_commercial=spec.non_commercial,
        format_confirmed=not isinstance(spec, ConversationSource) or spec.confirmed,
        expected=spec.expected,
        num_rows=read.num_rows,
        malformed=read.malformed,
        num_kept=kept.get(spec.name, 0),
        note=spec.note,
        survey=survey,
    )


def _matches(rule: MatchRule | None, data: Path | None) -> tuple[dict[str, int] | None, str]:
    """Matches by problem id, and a line for the card."""
    if rule is None:
        return None, "the recipe asks for none"
    path = data / rule.file if data is not None else None
    if path is None or not path.is_file():
        return None, (
            f"not applied: no {rule.file}; `python -m trainer inspect --solve-rate` writes it (paper: at least "
            f"{rule.least} of 16 responses by Qwen3-32B match)"
        )
    rates = read_rates(path)
    return {rate.id: rate.solved for rate in rates}, f"at least {rule.least} matches, by {rule.file}"


def _by_source(rows: Dataset, kept: npt.NDArray[np.int64]) -> dict[str, int]:
    return dict(Counter(rows.data.column("source").take(kept).to_pylist()))


def _total(rows: Dataset, kept: npt.NDArray[np.int64], name: str) -> int:
    return int(rows.data.column(name).to_numpy()[kept].sum())


def _kept_aside(read: _Read) -> Iterator[dict[str, Any]]:
    """Rows that are malformed: source, number, reason and detail. The row itself is in the source."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bad = pc.is_in(read.rows.data.column("reason"), pa.array(sorted(read.malformed), pa.string())).to_numpy()
    names = ["source", "number", "reason", "detail"]
    for row in read.rows.select_columns(names).select(np.flatnonzero(bad)):
        yield dict(row)


def _write_parquet(rows: Dataset, kept: npt.NDArray[np.int64], names: Iterable[str], path: Path) -> None:
    """Selected rows in the order of `kept`; equal rows give equal bytes."""
    import pyarrow.parquet as pq

    chosen = rows.select_columns(list(names)).select(kept).with_format("arrow")
    schema = rows.select_columns(list(names)).data.schema.remove_metadata()
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in chosen.iter(batch_size=GROUP):
            writer.write_table(table.cast(schema), row_group_size=GROUP)


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(row), sort_keys=True, ensure_ascii=False) + "\n")


@contextmanager
def _room_on_disk() -> Iterator[None]:
    """A full disk is one line; what is finished stays."""
    try:
        yield
    except OSError as error:
        if error.errno != ENOSPC:
            raise
        raise ConfigError(
            f"{error.filename or 'the disk of runtime.paths.results'}: no space left; free some and run the same "
            "command again, which goes on where this one stopped"
        ) from None
