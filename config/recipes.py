"""`Recipe`: what a training set is made of, as data. One YAML file in config/recipes each.

A recipe is no section of the configuration: `data.source` names it, and its digest enters the manifest of the data.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from config.fields import FolderName, Frac, Positive, Section, Text
from config.mapping import read_yaml
from config.resolve import DEFAULTS
from records.errors import ConfigError, require_known

RECIPES = DEFAULTS.with_name("recipes")
COMMIT = re.compile("[0-9a-f]{40}")

Conversion = Literal["tool_ace", "apigen", "glaive", "magicoder", "tulu", "nemotron"]
"""Modules of `trainer.data.converters`; a test compares."""


class SourceSpec(Section):
    """One published set, and the file that replaces it in `runtime.paths.data`."""

    name: FolderName
    file: Text
    """Read from `runtime.paths.data` where it exists: JSONL, or Parquet by its suffix."""
    hub: Text | None = None
    """Id on the Hugging Face hub; null: the set is a file alone."""
    subset: Text | None = None
    """Configuration of the hub set."""
    split: Text = "train"
    revision: Text | None = None
    """Commit on the hub. null: nobody has pinned it, and the data card states so."""
    gated: bool = False
    """The hub asks for a login and an agreement."""
    licence: Text
    non_commercial: bool = False
    expected: Positive | None = None
    """Rows that the paper or the set's own page states."""
    found: Positive | None = None
    """Rows of the file that the authors read; null: they never had it."""
    where: dict[str, list[str]] = Field(default_factory=dict)
    """Column -> values that are kept; other rows count as `other_part`."""
    at_most: Positive | None = None
    """Converted rows that are kept, drawn by seed; null: all."""
    note: Text | None = None

    @property
    def is_pinned(self) -> bool:
        return self.revision is not None and COMMIT.fullmatch(self.revision) is not None


class ProblemSource(SourceSpec):
    """A set of problems with answers."""

    id: tuple[Text, ...] = ("id",)
    problem: tuple[Text, ...] = ("problem", "prompt", "question")
    answer: tuple[Text, ...] = ("answer", "solution", "expected_answer")
    """Columns by preference: the first that a row has is read. A row without `id` is called by its number."""


class ConversationSource(SourceSpec):
    """A set of conversations for SFT."""

    conversion: Conversion
    confirmed: bool = False
    """The conversion has been run on rows of this set; false: on rows made from its documentation alone."""


class MatchRule(Section):
    """Keeps a problem when a reference model reached its label often enough (paper section 4.2)."""

    file: Text
    """Solve rates in `runtime.paths.data`, as `python -m trainer inspect --solve-rate` writes them."""
    least: Positive
    """Paper: 2, of 16 responses by Qwen3-32B."""
    sources: tuple[Text, ...]
    """Names of the sources that it judges."""


class AlsoReport(Section):
    """A set whose copies are counted, not removed: JSONL with problem and answer."""

    name: Text
    file: Text


class ProblemPart(Section):
    """Problems for RL (paper section 4.2)."""

    sources: Annotated[list[ProblemSource], Field(min_length=1)]
    languages: tuple[Literal["en", "zh"], ...] = ("en",)
    max_abs_answer: Annotated[int, Field(ge=1)] = 10**12
    """Largest magnitude of an answer; beyond it a verifier may time out."""
    max_chars: Positive = 20_000
    """Longest problem text."""
    near_duplicate: Frac = 0.9
    """Jaccard similarity from which two problems with one answer are the same; 1 removes none."""
    decontaminate: bool = True
    """Remove what overlaps with a benchmark."""
    also_report: tuple[AlsoReport, ...] = ()
    matches: MatchRule | None = None


class ConversationPart(Section):
    """Conversations for SFT (paper section 4.1)."""

    sources: Annotated[list[ConversationSource], Field(min_length=1)]
    max_chars: Positive = 100_000
    """Longest conversation, in characters of its JSON."""
    decontaminate: bool = True


class Recipe(Section):
    """A training set: problems, conversations or both."""

    title: Text
    seed: Annotated[int, Field(ge=0)]
    """Of every draw and shuffle."""
    conversations: ConversationPart | None = None
    problems: ProblemPart | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.conversations is None and self.problems is None:
            raise ValueError("a recipe gives conversations, problems or both; this one gives neither")
        names = [source.name for source in self.sources]
        for name in sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two sources are called {name!r}; give each its own name")
        if self.problems is not None and self.problems.matches is not None:
            known = [source.name for source in self.problems.sources]
            for name in self.problems.matches.sources:
                if name not in known:
                    raise ValueError(
                        f"problems.matches.sources: no source {name!r}; known: {', '.join(known)}"
                    )
        return self

    @property
    def sources(self) -> list[SourceSpec]:
        """Every source, conversations first."""
        parts = (self.conversations, self.problems)
        return [source for part in parts if part is not None for source in part.sources]


def recipe_names() -> list[str]:
    """Names that `load_recipe` takes."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def load_recipe(name: str) -> Recipe:
    """The recipe of a name, or of a YAML file given by its path.

    Raises:
        ConfigError: there is none, or a value in it is wrong.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        require_known(name, recipe_names(), "--recipe")
        path = RECIPES / f"{name}.yaml"
    try:
        return Recipe.model_validate(read_yaml(path), strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{path}: {where + ': ' if where else ''}{message}") from None
