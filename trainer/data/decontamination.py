"""Do problems of a training set occur in a benchmark? One implementation for data preparation and evaluation.

Three signals per pair: the same text after normalising, shared n-grams that are not boilerplate, and the longest common
run of words, which is shown. Phrases such as 'where m and n are relatively prime positive integers' occur in many
problems and prove nothing: n-grams seen in three or more problems are boilerplate and flag nothing by themselves.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

_WORD = re.compile(r"[a-z0-9]+")
SHORTEST = 5
"""Words of the shortest text that can be a copy: one of another script leaves a few numbers, or none."""
_MARK = re.compile(r"[a-z0-9]+|[-+*/=<>^|!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A problem as contamination sees it."""

    id: str
    text: str
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A benchmark problem and the training problem most like it."""

    benchmark_id: str
    train_id: str
    exact: bool
    """Same words in the same order."""
    same_answer: bool
    num_rare: int
    """Shared n-grams that are not boilerplate."""
    covered_frac: float
    """Share of the benchmark problem's n-grams, boilerplate included, found in the training problem."""
    span: str
    """Longest common run of words."""
    span_words: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What counts as contaminated."""

    n: int = 13
    """Words of an n-gram; a shorter problem is one n-gram by itself."""
    boilerplate_from: int = 3
    """An n-gram in so many different problems is boilerplate."""
    min_covered_frac: float = 0.5
    """From this coverage on a pair is flagged even if all its n-grams are common."""
    min_rare_covered_frac: float = 0.25
    """From this coverage on a pair is flagged if one shared n-gram is rare: a single one is often boilerplate in a new
    wording."""


def read_entries(path: Path) -> list[Entry]:
    """Problems of a training set: JSONL whose rows have problem, question or prompt; anything else is named."""
    from verifier.declaration import WrongData, jsonl_rows

    entries = []
    for number, row in enumerate(jsonl_rows(path), 1):
        text = row.get("problem") or row.get("question") or row.get("prompt")
        if not isinstance(text, str):
            raise WrongData(f"{path}, row {number}: no text under problem, question or prompt")
        entries.append(Entry(id=str(row.get("id", number)), text=text, answer=str(row.get("answer", ""))))
    if not entries:
        raise WrongData(f"{path}: holds no problems; give the training set as JSONL")
    return entries


def words_of(text: str) -> tuple[str, ...]:
    r"""Lower-case words and numbers; spacing, case and LaTeX marks do not count.

    >>> words_of(r"Find $m + n$, where \frac{m}{n}.")
    ('find', 'm', 'n', 'where', 'm', 'n')
    """
    return tuple(
        word
        for word in _WORD.findall(text.lower())
        if word not in ("frac", "dfrac", "tfrac", "left", "right", "text")
    )


def exact_key(text: str) -> tuple[str, ...]:
    """Words and operators: a plus that became a minus makes another problem.

    >>> exact_key("z^2 + 1") == exact_key("z^2 - 1"), exact_key("Find $x+1$.") == exact_key("find x + 1")
    (False, True)
    """
    plain = re.sub(
        r"\\(?:left|right)(?![a-z])",
        "",
        text.lower().replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac"),
    )
    return tuple(_MARK.findall(plain))


@dataclass(frozen=True, slots=True)
class Text:
    """A training problem with what every index compares, computed once."""

    entry: Entry
    key: tuple[str, ...]
    """`exact_key` of the text."""
    grams: frozenset[int]

    @classmethod
    def of(cls, entry: Entry, n: int) -> Text:
        return cls(entry, exact_key(entry.text), _ngrams(words_of(entry.text), n))


class Index:
    """The problems of one benchmark, and the training problems that share text with them.

    Repeated rows of the training set count once, so that a set written 100 times over is no boilerplate.
    """

    def __init__(self, benchmark: Sequence[Entry], rule: Rule | None = None) -> None:
        self.benchmark, self.rule = benchmark, rule or Rule()
        self._words = {entry.id: words_of(entry.text) for entry in benchmark}
        self._grams = {id: _ngrams(words, self.rule.n) for id, words in self._words.items()}
        self._asked_by: dict[int, list[str]] = defaultdict(list)
        for id, grams in self._grams.items():
            for gram in grams:
                self._asked_by[gram].append(id)
        self._by_text: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for entry in benchmark:
            key = exact_key(entry.text)
            if len(key) >= SHORTEST:
                self._by_text[key].append(entry.id)
        self._seen_in: Counter[int] = Counter({gram: len(ids) for gram, ids in self._asked_by.items()})
        self._candidates: dict[str, list[tuple[Entry, frozenset[int]]]] = defaultdict(list)
        self._exact: dict[str, list[Entry]] = defaultdict(list)
        self._known: set[tuple[str, ...]] = set()

    def shares(self, text: Text) -> bool:
        """Whether a training problem shares an n-gram with the benchmark, or is one of its problems."""
        return text.key in self._by_text or not self._asked_by.keys().isdisjoint(text.grams)

    def add(self, text: Text) -> None:
        """Count one training problem; one that shares nothing changes nothing."""
        if not self.shares(text) or text.key in self._known:
            return
        self._known.add(text.key)
        for id in self._by_text.get(text.key, ()):
            self._exact[id].append(text.entry)
        shared = text.grams & self._asked_by.keys()
        self._seen_in.update(shared)
        for id in {id for gram in shared for id in self._asked_by[gram]}:
            self._candidates[id].append((text.entry, self._grams[id] & shared))

    def overlaps(self) -> list[Overlap]:
        """Contaminated benchmark problems, each with its most similar training problem, in the benchmark's order."""
        answers = {entry.id: entry.answer for entry in self.benchmark}
        rows = []
        for entry in self.benchmark:
            exact = self._exact.get(entry.id, [])
            best = exact[0] if exact else max(self._flagged(entry.id), default=(None,), key=_similarity)[0]
            if best is not None:
                rows.append(self._row(entry.id, answers[entry.id], best, exact=bool(exact)))
        return rows

    def contaminated(self) -> dict[str, str]:
        """Every training problem over the threshold (not the most similar one alone) -> a benchmark problem."""
        found: dict[str, str] = {}
        for entry in self.benchmark:
            others = [*self._exact.get(entry.id, []), *(other for other, *_ in self._flagged(entry.id))]
            for other in others:
                found.setdefault(other.id, entry.id)
        return found

    @property
    def num_exact(self) -> int:
        """Benchmark problems with a copy of their words and operators."""
        return len(self._exact)

    @property
    def num_flagged(self) -> int:
        """Benchmark problems that `overlaps` returns."""
        return sum(
            entry.id in self._exact or next(self._flagged(entry.id), None) is not None
            for entry in self.benchmark
        )

    def naive(self) -> list[str]:
        """Benchmark problems that share any whole n-gram: most of these hits are boilerplate. For comparison only."""
        long = {entry.id for entry in self.benchmark if len(self._words[entry.id]) >= self.rule.n}
        return [entry.id for entry in self.benchmark if entry.id in long and entry.id in self._candidates]

    def _flagged(self, id: str) -> Iterator[tuple[Entry, int, float]]:
        for other, common in self._candidates.get(id, ()):
            rare = sum(self._seen_in[gram] < self.rule.boilerplate_from for gram in common)
            covered = len(common) / len(self._grams[id])
            if covered >= (self.rule.min_rare_covered_frac if rare else self.rule.min_covered_frac):
                yield other, rare, covered

    def _row(self, id: str, answer: str, other: Entry, *, exact: bool) -> Overlap:
        own, other_words = self._words[id], words_of(other.text)
        match = SequenceMatcher(None, own, other_words, autojunk=False).find_longest_match()
        common = self._grams[id] & _ngrams(other_words, self.rule.n)
        return Overlap(
            benchmark_id=id,
            train_id=other.id,
            exact=exact,
            same_answer=_same_answer(answer, other.answer),
            num_rare=sum(self._seen_in[gram] < self.rule.boilerplate_from for gram in common),
            covered_frac=len(common) / len(self._grams[id]) if self._grams[id] else 0.0,
            span=" ".join(own[match.a : match.a + match.size]),
            span_words=match.size,
        )


def _similarity(flagged: tuple[Entry, int, float]) -> tuple[int, float]:
    return flagged[1], flagged[2]


def overlaps(train: Iterable[Entry], benchmark: Sequence[Entry], rule: Rule | None = None) -> list[Overlap]:
    """Contaminated benchmark problems, each with its most similar training problem, in the benchmark's order.

    >>> text = "A train leaves the station at noon and travels north at sixty miles per hour for two whole hours"
    >>> found = overlaps([Entry(id="t", text=text.upper() + " today.")], [Entry(id="b", text=text)])
    >>> [(row.benchmark_id, row.exact, row.num_rare > 0) for row in found]
    [('b', False, True)]
    """
    index = Index(benchmark, rule)
    for entry in train:
        index.add(Text.of(entry, index.rule.n))
    return index.overlaps()


def _ngrams(words: tuple[str, ...], n: int) -> frozenset[int]:
    if len(words) <= n:
        return frozenset((hash(words),)) if len(words) >= SHORTEST else frozenset()
    return frozenset(hash(words[at : at + n]) for at in range(len(words) - n + 1))


def _same_answer(a: str, b: str) -> bool:
    from verifier.answers.compare import Outcome, compare

    return bool(a.strip()) and bool(b.strip()) and compare(a, b).outcome is Outcome.EQUAL
