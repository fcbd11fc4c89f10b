"""GPQA-Diamond: 198 questions with four options, read from the protected archive and never written in plain text.

The authors ask that questions do not appear in plain text online, so no log, report or repository holds them. The
order of the options comes from a hash of (seed, question) and rotates with the repeat: over four repeats the right
option takes each place once.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifier.declaration import Benchmark, HubSource, KnownIssue, PromptKind, Sampling, WrongData
from verifier.graders.policy import GradePolicy

if TYPE_CHECKING:
    from records.problem import Problem

LETTERS = "ABCD"
_PASSWORD = b"deserted-untie-orchid"
"""The authors of GPQA publish this password; it only keeps crawlers out."""
_INSTRUCTION = (
    "Answer the following multiple choice question. End with a line of the form 'Answer: X' where X is one of "
    "A, B, C, D, or with the letter in a box."
)


def _open_archive(path: Path) -> Iterable[Mapping[str, Any]]:
    """Yield the rows of the one JSONL or CSV member of the archive, decrypted in memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                name
                for name in archive.namelist()
                if name.endswith(("gpqa_diamond.jsonl", "gpqa_diamond.csv"))
            ]
            if len(members) != 1:
                raise WrongData(f"{path}: no single member gpqa_diamond.jsonl or .csv")
            text = archive.read(members[0], pwd=_PASSWORD).decode("utf-8")
    except (zipfile.BadZipFile, RuntimeError) as error:
        raise WrongData(f"{path}: not the protected GPQA archive: {error}") from None
    if members[0].endswith(".csv"):
        yield from csv.DictReader(io.StringIO(text))
        return
    for line in text.split("\n"):
        if line.strip():
            yield json.loads(line)


def _read(row: Mapping[str, Any], index: int) -> Problem:
    if "Question" in row:
        question, right = row["Question"], row["Correct Answer"]
        wrong = [row[f"Incorrect Answer {number}"] for number in (1, 2, 3)]
        id = str(row.get("Record ID") or f"gpqa-diamond-{index}")
    else:
        question, right, wrong, id = (
            row["question"],
            row["correct_answer"],
            row["incorrect_answers"],
            str(row["id"]),
        )
    if len(wrong) != 3:
        raise ValueError(f"{len(wrong)} wrong options instead of 3")
    domain = str(row.get("High-level domain", ""))
    options = [str(option).strip() for option in (right, *wrong)]
    return arrange(question.strip(), options, id=id, family=domain)


def arrange(
    question: str, options: Sequence[str], *, id: str, family: str = "", seed: int = 0, repeat: int = 0
) -> Problem:
    """Return the question with its options in the order of (seed, id, repeat); `options[0]` is the right one.

    >>> letters = [arrange("?", ["r", "x", "y", "z"], id="q", repeat=k).answer for k in range(4)]
    >>> sorted(letters)
    ['A', 'B', 'C', 'D']
    """
    from records.problem import Problem
    from records.problem_params import Options

    order = option_order(id, seed=seed, repeat=repeat)
    lines = [f"{letter}) {options[which]}" for letter, which in zip(LETTERS, order, strict=True)]
    return Problem(
        id=id,
        prompt="\n".join([_INSTRUCTION, "", question, "", *lines]),
        answer=LETTERS[order.index(0)],
        family=family,
        params=Options(question=question, options=tuple(options), order=tuple(order)),
    )


def rearrange(problem: Problem, *, seed: int, repeat: int) -> Problem:
    """Return the same question in the order of another repeat."""
    from records.problem_params import Options

    if not isinstance(problem.params, Options):
        raise ValueError(f"{problem.id} is no question of multiple choice")
    asked = problem.params
    return arrange(
        asked.question, asked.options, id=problem.id, family=problem.family, seed=seed, repeat=repeat
    )


def option_order(id: str, *, seed: int, repeat: int) -> list[int]:
    """Return the option in each place: a permutation from the hash, rotated by the repeat.

    >>> option_order("q7", seed=0, repeat=0) == option_order("q7", seed=0, repeat=4)
    True
    """
    number = int.from_bytes(hashlib.sha256(f"gpqa:{seed}:{id}".encode()).digest()[:8], "big")
    left, order = list(range(len(LETTERS))), []
    while left:
        number, at = divmod(number, len(left))
        order.append(left.pop(at))
    turn = repeat % len(LETTERS)
    return order[turn:] + order[:turn]


def letter_histogram(letters: Iterable[str | None]) -> dict[str, int]:
    """Count each letter; anything else counts as none.

    The counts of golds and predictions reveal a shuffling bug, or a model that always picks C.

    >>> letter_histogram(["A", "C", "C", None])
    {'A': 1, 'B': 0, 'C': 2, 'D': 0, 'none': 1}
    """
    counts = Counter(letter if letter in set(LETTERS) else "none" for letter in letters)
    return {name: counts.get(name, 0) for name in (*LETTERS, "none")}


BENCHMARK = Benchmark(
    name="gpqa_diamond",
    title="GPQA-Diamond",
    num_questions=198,
    version="Diamond; option order from a hash",
    file="gpqa_diamond.zip",
    hub=HubSource(id="Idavidrein/gpqa", revision="main", split="train", configs=("gpqa_diamond",)),
    how_to_get="put the protected archive gpqa_diamond.zip into the data folder, or log in to the hub and accept its "
    "terms",
    read=_read,
    open_file=_open_archive,
    prompt=PromptKind.CHOICE,
    policy=GradePolicy(choice=True),
    sampling=Sampling(num_samples=16, temperature=0.6, max_tokens=30_720, max_turns=30),
    digests=("e482df9497a3b6751a8c6f3b4ca46f13a62f0cac5f8081b2361e2d6c9beeb8e1",),
    known_issues=(
        KnownIssue(problems=(), what="the authors expect some wrong keys; the copy used has no domains"),
    ),
)
