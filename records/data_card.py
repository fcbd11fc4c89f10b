"""`DataCard`: the origin of a training set, as card.json in its folder. The report draws its funnel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from records.stored import Stored

CARD = "card.json"
Part = Literal["problems", "conversations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelStep(Stored):
    """Rows that one rule removed."""

    step: str
    removed: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport(Stored):
    """Overlap of a source with a benchmark, over all its readable rows."""

    name: str
    removes: bool
    """Whether an overlap removes the training row; false: it is only counted."""
    num_problems: int
    num_same_words: int
    """Equal words; operators do not count."""
    num_exact: int
    """Equal words and operators."""
    num_flagged: int
    """Exact, or over the threshold of shared n-grams."""
    num_naive: int
    """Rows with a shared 13-gram: mostly boilerplate, reported with the rule that separates them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey(Stored):
    """Contents of a source of problems before any removal."""

    languages: dict[str, int]
    num_negative: int
    """Readable rows with a negative answer."""
    num_unique: int
    """Different problems, normalised."""
    num_conflicting: int
    """Normalised problems that occur with different answers."""
    overlaps: list[SetReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCard(Stored):
    """One source, as read."""

    name: str
    part: Part
    place: str
    """File, or hub id and revision."""
    identity: str
    """sha256 of the file, or hub id and revision."""
    pinned: bool
    """The bytes are fixed: a file with a digest, or a commit of the hub."""
    licence: str
    non_commercial: bool
    format_confirmed: bool
    """The conversion has been run on rows of this set."""
    expected: int | None
    """Rows that the paper or the set's page states."""
    num_rows: int
    malformed: dict[str, int]
    """Rows kept aside, by reason."""
    num_kept: int
    note: str | None = None
    survey: Survey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCard(Stored):
    """The card of one training set."""

    title: str
    recipe: str
    recipe_digest: str
    seed: int
    limit: int | None
    """Rows read of each source; null: all."""
    sources: list[SourceCard]
    funnels: dict[Part, list[FunnelStep]]
    checked_against: list[str]
    """Benchmarks whose overlaps were removed."""
    not_checked: list[str]
    """Unavailable benchmarks, each with the way to get it."""
    num_conflicts: int
    """Rows listed in conflicts.jsonl."""
    rewriting: str
    """The model that rewrote, or the missing requirement."""
    matches: str
    """The rule of the reference model, or the reason why it was not applied."""
    num_calls: int = 0
    """Calls in the kept conversations."""
    num_results: int = 0
    notes: list[str] = field(default_factory=list)
