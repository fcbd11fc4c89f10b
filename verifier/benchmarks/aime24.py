"""AIME 2024, I and II: 30 problems with integer answers from 0 to 999."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from verifier.declaration import INTEGER_POLICY, Benchmark, HubSource, KnownIssue


def read_aime(year: int, row: Mapping[str, Any], index: int) -> Any:
    """Read one row. The id names year, paper and number; they come from the row's id or url, else its position."""
    from records.problem import Problem

    id = str(row.get("id", ""))
    if not id.startswith(f"aime{year % 100}-"):
        place = re.search(r"AIME_(I{1,2})_Problems/Problem_(\d+)", str(row.get("url", "")))
        paper, number = place.groups() if place else (("I", "II")[index // 15], index % 15 + 1)
        id = f"aime{year % 100}-{year}-{paper}-{number}"
    answer = str(row["answer"]).strip()
    return Problem(
        id=id, prompt=row.get("problem") or row["question"], answer=str(int(answer.removesuffix("^\\circ")))
    )


def _read(row: Mapping[str, Any], index: int) -> Any:
    return read_aime(2024, row, index)


BENCHMARK = Benchmark(
    name="aime24",
    title="AIME 2024",
    num_questions=30,
    version="2024 I and II",
    file="aime24.jsonl",
    hub=HubSource(
        id="HuggingFaceH4/aime_2024", revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a", split="train"
    ),
    how_to_get="put aime24.jsonl (id, problem, answer) into the data folder, or allow access to the hub",
    read=_read,
    policy=INTEGER_POLICY,
    digests=("d9adb8483dd9201e2f26687336dc3edcccbe5e24de3f69f6ce54ba8526c36e99",),
    known_issues=(
        KnownIssue(
            problems=("aime24-2024-I-5", "aime24-2024-I-6", "aime24-2024-II-8"),
            what="the public copies differ only in the figure code of the text",
        ),
    ),
)
