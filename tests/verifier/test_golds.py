"""Whole sets of real golds: each equals itself, and near neighbours differ."""

import json
import random
import re
from collections import defaultdict
from pathlib import Path

import pytest

from records.verdict import VerdictKind
from verifier.answers.compare import Outcome, compare
from verifier.graders.grade import grade_answer

EMPTY_GOLDS = {"math-train-5341", "math-train-5343"}
"""Rows of the MATH train set whose solution ends in an empty box: refused, never rewarded."""


def _rows(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("file", ["math500.jsonl", "math_train.jsonl"])
def test_every_gold_equals_itself_in_a_box_and_empty_golds_are_refused(file: str, shared_dir: Path) -> None:
    refused = set()
    for row in _rows(shared_dir / "data" / file):
        verdict = grade_answer(row["answer"], f"so \\boxed{{{row['answer']}}}.", id=row["id"])
        if verdict.verdict is not VerdictKind.CORRECT:
            assert verdict.verdict is VerdictKind.UNPARSED, row
            refused.add(row["id"])
    assert refused == (EMPTY_GOLDS if file == "math_train.jsonl" else set())


def neighbours(golds: list[str], count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of different golds that differ by one inserted or replaced character."""
    by_rest: dict[tuple[int, str], set[str]] = defaultdict(set)
    for gold in golds:
        by_rest[-1, gold].add(gold)
        for at in range(len(gold)):
            rest = gold[:at] + gold[at + 1 :]
            by_rest[at, rest].add(gold)
            by_rest[-1, rest].add(gold)
    pairs = {
        (a, b)
        for (at, rest), members in by_rest.items()
        for a in members
        for b in members
        if a < b and (at >= 0 or rest in (a, b))
    }
    return random.Random(seed).sample(sorted(pairs), count)


HARMLESS = ("unit", "\\text", "\\mbox", "\\circ", "\\%", "\\$", "\\!", "$", "_")
"""Equal by policy: golds that differ by a unit, a degree, percent or money sign, a thin space or a base only."""


def test_near_neighbours_are_distinguished(shared_dir: Path) -> None:
    golds = sorted(
        {row["answer"] for row in _rows(shared_dir / "data" / "math_train.jsonl") if row["answer"].strip()}
    )
    accepted = [pair for pair in neighbours(golds, 300, seed=0) if compare(*pair).outcome is Outcome.EQUAL]
    harmful = [pair for pair in accepted if not _same_but_notation(*pair)]
    assert not harmful


def _same_but_notation(a: str, b: str) -> bool:
    if all(re.fullmatch(r"\d+(\.\d+)?", text) for text in (a, b)):
        return float(a) == float(b)
    strip = str.maketrans("", "", " {}()")
    bare = [
        re.sub(r"\\left|\\right|(?<=\\)[dt](?=frac)|(?<!\d)0+(?=\d)", "", text.translate(strip))
        for text in (a, b)
    ]
    if bare[0] == bare[1]:
        return True
    return any(mark in text for text in (a, b) for mark in HARMLESS)
