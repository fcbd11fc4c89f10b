"""`DataCard`: how a training set came about; card.json beside it. The report draws its funnel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from records.stored import Stored

CARD = "card.json"
Part = Literal["problems", "conversations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelStep(Stored):
    """What one rule removed."""

    step: str
    removed: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport(Stored):
    """How much of a benchmark is in a source, all its readable rows counted."""

    name: str
    removes: bool
    """Whether an overlap removes the training row; false: it is counted alone."""
    num_problems: int
    num_same_words: int
    """Words alone compared: operators do not count."""
    num_exact: int
    """Words and operators."""
    num_flagged: int
    """Exact, or over the threshold of shared n-grams."""
    num_naive: int
    """Share any 13-gram: mostly boilerplate, shown beside the rule that separates them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey(Stored):
    """What is in a source of problems before anything is removed."""

    languages: dict[str, int]
    num_negative: int
    """Readable rows with a negative answer."""
    num_unique: int
    """Different problems, normalised."""
    num_conflicting: int
    """Problems, normalised, that occur with different answers."""
    overlaps: list[SetReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCard(Stored):
    """One source as it was read."""

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
    """Benchmarks that could not be reached, each with the way to get it."""
    num_conflicts: int
    """Rows listed in conflicts.jsonl."""
    rewriting: str
    """The model that rewrote, or what is missing without it."""
    matches: str
    """The reference model's rule, or why it was not applied."""
    num_calls: int = 0
    """Calls in the conversations kept."""
    num_results: int = 0
    notes: list[str] = field(default_factory=list)
