"""Every benchmark that can be reached, as decontamination compares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from records.data_card import SetReport
from records.errors import ConfigError
from trainer.data.decontamination import SHORTEST, Entry, Index, Overlap, Text, read_entries, words_of
from trainer.data.problem_rules import hash64

_NOT_A_SET_OF_ITS_OWN = ("bfcl_v3_prompt", "bfcl_v3_path")
"""The same questions as bfcl_v3 in another form."""
SECRET = "gpqa_diamond"
"""Its texts never reach a file of this suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A set that a training set is compared with."""

    name: str
    entries: tuple[Entry, ...]
    removes: bool
    """Whether an overlap removes the training problem; false: it is counted alone."""


def reachable(data: Path | None) -> tuple[list[Checked], list[str]]:
    """Published benchmarks, and a line for each that cannot be reached. Procedural rings are split by hash instead."""
    from verifier.benchmarks import ALL, DataUnavailable, WrongData

    found, absent = [], []
    for benchmark in ALL:
        if benchmark.name.startswith("procedural") or benchmark.name in _NOT_A_SET_OF_ITS_OWN:
            continue
        try:
            problems = benchmark.load(data)
        except DataUnavailable as error:
            absent.append(str(error))
            continue
        except WrongData as error:
            raise ConfigError(f"decontamination: {error}") from None
        entries = tuple(Entry(id=p.id, text=p.prompt, answer=p.answer) for p in problems)
        found.append(Checked(name=benchmark.name, entries=entries, removes=True))
    return found, absent


def reported(name: str, path: Path) -> Checked | None:
    """A set whose copies are counted; None where its file is not there."""
    if not path.is_file():
        return None
    return Checked(name=name, entries=tuple(read_entries(path)), removes=False)


class Hits:
    """Whether a text can overlap with any of some sets at all. Pickled with its texts; indexed in each process."""

    def __init__(self, checked: Sequence[Checked]) -> None:
        self.checked = tuple(checked)
        self._indices: list[Index] | None = None

    def __getstate__(self) -> tuple[Checked, ...]:
        # Hashes of words differ between processes, so no index travels.
        return self.checked

    def __setstate__(self, checked: tuple[Checked, ...]) -> None:
        self.checked, self._indices = checked, None

    @property
    def indices(self) -> list[Index]:
        if self._indices is None:
            self._indices = [Index(each.entries) for each in self.checked]
        return self._indices

    def hit(self, text: str) -> bool:
        """True for every text that `Index.add` would count."""
        if not self.checked:
            return False
        made = Text.of(Entry(id="", text=text), self.indices[0].rule.n)
        return any(index.shares(made) for index in self.indices)

    def add(self, entry: Entry) -> None:
        """Count a training problem in every index."""
        made = Text.of(entry, self.indices[0].rule.n)
        for index in self.indices:
            index.add(made)

    def contaminated(self) -> dict[str, str]:
        """Training problems that a benchmark removes -> name of the benchmark."""
        found: dict[str, str] = {}
        for each, index in zip(self.checked, self.indices, strict=True):
            if each.removes:
                for id in index.contaminated():
                    found.setdefault(id, each.name)
        return found

    def overlaps(self) -> list[tuple[str, Overlap]]:
        """Overlaps with the benchmarks that remove, each with the benchmark's name."""
        return [
            (each.name, row)
            for each, index in zip(self.checked, self.indices, strict=True)
            if each.removes
            for row in index.overlaps()
        ]

    def reports(self, words_keys: frozenset[int]) -> list[SetReport]:
        """One report per set. `words_keys`: `words_key` of every readable row of the source."""
        return [
            SetReport(
                name=each.name,
                removes=each.removes,
                num_problems=len(each.entries),
                num_same_words=sum(
                    words_key(entry.text) in words_keys
                    for entry in each.entries
                    if len(words_of(entry.text)) >= SHORTEST
                ),
                num_exact=index.num_exact,
                num_flagged=index.num_flagged,
                num_naive=len(index.naive()),
            )
            for each, index in zip(self.checked, self.indices, strict=True)
        ]


def words_key(text: str) -> int:
    """Words of a text as one number.

    >>> words_key("Find $m + n$.") == words_key("find m - n")
    True
    """
    return hash64(" ".join(words_of(text)))
