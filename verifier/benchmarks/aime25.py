"""AIME 2025, I and II: 30 problems with integer answers from 0 to 999."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifier.benchmarks.aime24 import read_aime
from verifier.declaration import INTEGER_POLICY, Benchmark, HubSource, KnownIssue


def _read(row: Mapping[str, Any], index: int) -> Any:
    return read_aime(2025, row, index)


BENCHMARK = Benchmark(
    name="aime25",
    title="AIME 2025",
    num_questions=30,
    version="2025 I and II",
    file="aime25.jsonl",
    hub=HubSource(id="math-ai/aime25", revision="563bb8404243c5f09de6ec262f2db674fe5bce9b", split="test"),
    how_to_get="put aime25.jsonl (id, problem, answer) into the data folder, or allow access to the hub",
    read=_read,
    policy=INTEGER_POLICY,
    digests=("d5bf57ccd662e9756119d5d9a0154e99ea22299285f7219333de2296509e4122",),
    known_issues=(
        KnownIssue(
            problems=(),
            what="one public copy has a gold with a degree sign, which an integer-only grader would always mark wrong; "
            "it is read as an integer here",
        ),
        KnownIssue(problems=("aime25-2025-II-12",), what="several wordings are in circulation"),
    ),
)
