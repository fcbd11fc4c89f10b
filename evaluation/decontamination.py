"""`overlaps`: finds problems of a training set in a benchmark, for data preparation and for evaluation.

Each pair has three signals: equal text after normalising, shared n-grams that are not boilerplate, and the longest
common run of words, which the report shows. Phrases such as 'where m and n are relatively prime positive integers'
occur in many problems: n-grams in three or more problems are boilerplate and flag no pair by themselves.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

_WORD = re.compile(r"[a-z0-9]+")
_MARK = re.compile(r"[a-z0-9]+|[-+*/=<>^|!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The texts of a problem that the comparison uses."""

    id: str
    text: str
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A benchmark problem and the training problem most similar to it."""

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
    """Thresholds of contamination."""

    n: int = 13
    """Words of an n-gram; a shorter problem is one n-gram."""
    boilerplate_from: int = 3
    """An n-gram in this many different problems is boilerplate."""
    min_covered_frac: float = 0.5
    """At this coverage a pair is flagged even if all its n-grams are common."""
    min_rare_covered_frac: float = 0.25
    """At this coverage a pair is flagged if one shared n-gram is rare: a single rare n-gram is often boilerplate in new
    words."""


def read_entries(path: Path) -> list[Entry]:
    """Read a training set: JSONL whose rows have problem, question or prompt; an error names any other row."""
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
    r"""Return lower-case words and numbers; spacing, case and LaTeX marks do not count.

    >>> words_of(r"Find $m + n$, where \frac{m}{n}.")
    ('find', 'm', 'n', 'where', 'm', 'n')
    """
    return tuple(
        word
        for word in _WORD.findall(text.lower())
        if word not in ("frac", "dfrac", "tfrac", "left", "right", "text")
    )


def exact_key(text: str) -> tuple[str, ...]:
    """Return words and operators: a plus in place of a minus makes another problem.

    >>> exact_key("z^2 + 1") == exact_key("z^2 - 1"), exact_key("Find $x+1$.") == exact_key("find x + 1")
    (False, True)
    """
    plain = re.sub(
        r"\\(?:left|right)(?![a-z])",
        "",
        text.lower().replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac"),
    )
    return tuple(_MARK.findall(plain))


def overlaps(train: Iterable[Entry], benchmark: Sequence[Entry], rule: Rule | None = None) -> list[Overlap]:
    """Return contaminated benchmark problems with their most similar training problems, in the benchmark's order.

    >>> text = "A train leaves the station at noon and travels north at sixty miles per hour for two whole hours"
    >>> found = overlaps([Entry(id="t", text=text.upper() + " today.")], [Entry(id="b", text=text)])
    >>> [(row.benchmark_id, row.exact, row.num_rare > 0) for row in found]
    [('b', False, True)]
    """
    rule = rule or Rule()
    asked = {entry.id: words_of(entry.text) for entry in benchmark}
    grams_of = {id: _ngrams(words, rule.n) for id, words in asked.items()}
    ids_by_gram: dict[int, list[str]] = defaultdict(list)
    for id, grams in grams_of.items():
        for gram in grams:
            ids_by_gram[gram].append(id)
    by_text: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for entry in benchmark:
        by_text[exact_key(entry.text)].append(entry.id)
    seen_in: Counter[int] = Counter({gram: len(ids) for gram, ids in ids_by_gram.items()})
    candidates, exact = _scan(train, ids_by_gram, by_text, seen_in, rule)
    answers = {entry.id: entry.answer for entry in benchmark}
    rows = []
    for entry in benchmark:
        best = exact.get(entry.id) or _best(entry.id, candidates.get(entry.id, []), grams_of, seen_in, rule)
        if best is not None:
            rows.append(
                _row(entry.id, best, asked, answers, grams_of, seen_in, rule, exact=entry.id in exact)
            )
    return rows


def _ngrams(words: tuple[str, ...], n: int) -> frozenset[int]:
    if len(words) <= n:
        return frozenset((hash(words),)) if len(words) >= 5 else frozenset()
    return frozenset(hash(words[at : at + n]) for at in range(len(words) - n + 1))


def _scan(
    train: Iterable[Entry],
    ids_by_gram: dict[int, list[str]],
    by_text: dict[tuple[str, ...], list[str]],
    seen_in: Counter[int],
    rule: Rule,
) -> tuple[dict[str, list[Entry]], dict[str, Entry]]:
    """Find, in one pass, training problems that share an n-gram with a benchmark problem, and exact copies.

    Repeated rows of the training set count once, so that a row written 100 times does not become boilerplate.
    """
    candidates: dict[str, list[Entry]] = defaultdict(list)
    exact: dict[str, Entry] = {}
    known: set[tuple[str, ...]] = set()
    for entry in train:
        key = exact_key(entry.text)
        if key in known:
            continue
        known.add(key)
        for id in by_text.get(key, ()):
            exact.setdefault(id, entry)
        shared = [gram for gram in _ngrams(words_of(entry.text), rule.n) if gram in ids_by_gram]
        seen_in.update(shared)
        for id in {id for gram in shared for id in ids_by_gram[gram]}:
            candidates[id].append(entry)
    return candidates, exact


def _shared(
    id: str, other: Entry, grams_of: dict[str, frozenset[int]], seen_in: Counter[int], rule: Rule
) -> tuple[int, float]:
    grams = grams_of[id]
    common = grams & _ngrams(words_of(other.text), rule.n)
    rare = sum(seen_in[gram] < rule.boilerplate_from for gram in common)
    return rare, len(common) / len(grams) if grams else 0.0


def _best(
    id: str, others: list[Entry], grams_of: dict[str, frozenset[int]], seen_in: Counter[int], rule: Rule
) -> Entry | None:
    best, best_key = None, (0, 0.0)
    for other in others:
        key = _shared(id, other, grams_of, seen_in, rule)
        needed = rule.min_rare_covered_frac if key[0] else rule.min_covered_frac
        if key[1] >= needed and key > best_key:
            best, best_key = other, key
    return best


def _row(
    id: str,
    other: Entry,
    asked: dict[str, tuple[str, ...]],
    answers: dict[str, str],
    grams_of: dict[str, frozenset[int]],
    seen_in: Counter[int],
    rule: Rule,
    *,
    exact: bool,
) -> Overlap:
    own, other_words = asked[id], words_of(other.text)
    match = SequenceMatcher(None, own, other_words, autojunk=False).find_longest_match()
    rare, covered = _shared(id, other, grams_of, seen_in, rule)
    return Overlap(
        benchmark_id=id,
        train_id=other.id,
        exact=exact,
        same_answer=_same_answer(answers[id], other.answer),
        num_rare=rare,
        covered_frac=covered,
        span=" ".join(own[match.a : match.a + match.size]),
        span_words=match.size,
    )


def _same_answer(a: str, b: str) -> bool:
    from verifier.answers.compare import Outcome, compare

    return bool(a.strip()) and bool(b.strip()) and compare(a, b).outcome is Outcome.EQUAL
