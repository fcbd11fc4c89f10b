"""`Recipe`: the sources and rules of a training set, one YAML file each in config/recipes.

A recipe is no section of the configuration: `data.source` names it, and the manifest of the data holds its digest.
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


Rewritten = Literal["prompts", "responses"]
"""Parts of a conversation that a model rewrites."""


class SourceSpec(Section):
    """One published set, and the file that replaces it in `runtime.paths.data`."""

    name: FolderName
    file: Text
    """File in `runtime.paths.data`, which is read if it exists: JSONL, or Parquet by its suffix."""
    hub: Text | None = None
    """Id on the Hugging Face hub; null: the set is a file only."""
    subset: Text | None = None
    """Configuration of the hub set."""
    split: Text = "train"
    revision: Text | None = None
    """Commit on the hub. null: not pinned, which the data card states."""
    gated: bool = False
    """The hub requires a login and an agreement."""
    licence: Text
    non_commercial: bool = False
    expected: Positive | None = None
    """Rows that the paper or the set's own page states."""
    found: Positive | None = None
    """Rows of the file that the maintainers read; null: they never had it."""
    where: dict[str, list[str]] = Field(default_factory=dict)
    """Column -> values to keep; other rows count as `other_part`."""
    at_most: Positive | None = None
    """Converted rows to keep, drawn by seed; null: all."""
    note: Text | None = None

    @property
    def is_pinned(self) -> bool:
        return self.revision is not None and COMMIT.fullmatch(self.revision) is not None


class ProblemSource(SourceSpec):
    """A set of problems with answers."""

    id: tuple[Text, ...] = ("id",)
    problem: tuple[Text, ...] = ("problem", "prompt", "question")
    answer: tuple[Text, ...] = ("answer", "solution", "expected_answer")
    """Columns by preference: the first that a row has is read. The id of a row without `id` is its number."""


class ConversationSource(SourceSpec):
    """A set of conversations for SFT."""

    conversion: Conversion
    rewrite: Rewritten | None = None
    """Parts that the paper's o4-mini rewrote; `prepare --rewrite URL` names a server, else the card lists them."""
    confirmed: bool = False
    """The conversion ran on rows of this set; false: only on rows made from its documentation."""


class MatchRule(Section):
    """Keeps a problem when a reference model reached its label often enough (paper section 4.2)."""

    file: Text
    """Solve rates in `runtime.paths.data`, as `python -m trainer inspect --solve-rate` writes them."""
    least: Positive
    """Paper: 2, of 16 responses by Qwen3-32B."""
    sources: tuple[Text, ...]
    """Names of the sources that the rule judges."""


class AlsoReport(Section):
    """A set whose copies are counted, not removed: JSONL with problem and answer."""

    name: Text
    file: Text


class ProblemPart(Section):
    """Problems for RL (paper section 4.2)."""

    sources: Annotated[list[ProblemSource], Field(min_length=1)]
    languages: tuple[Literal["en", "zh"], ...] = ("en",)
    max_abs_answer: Annotated[int, Field(ge=1)] = 10**12
    """Largest magnitude of an answer; a verifier may time out beyond it."""
    max_chars: Positive = 20_000
    """Longest problem text."""
    near_duplicate: Frac = 0.9
    """Jaccard similarity from which two problems with one answer are the same; 1 removes none."""
    decontaminate: bool = True
    """Remove problems that overlap with a benchmark."""
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
    """Seed of every draw and shuffle."""
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
    """Return the names that `load_recipe` accepts."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def load_recipe(name: str) -> Recipe:
    """Return the recipe of a name, or of the path of a YAML file.

    Raises:
        ConfigError: no such recipe, or a value in it is wrong.
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
