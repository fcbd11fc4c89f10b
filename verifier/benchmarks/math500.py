"""MATH-500: 500 problems of the MATH test set, with LaTeX golds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifier.declaration import Benchmark, HubSource, KnownIssue, Sampling


def _read(row: Mapping[str, Any], index: int) -> Any:
    from records.problem import Problem

    del index
    return Problem(
        id=str(row.get("unique_id") or row["id"]),
        prompt=row["problem"],
        answer=row["answer"],
        family=row["subject"],
        level=int(row["level"]),
    )


BENCHMARK = Benchmark(
    name="math500",
    title="MATH-500",
    num_questions=500,
    version="PRM800K split, 500 of MATH test",
    file="math500.jsonl",
    hub=HubSource(
        id="HuggingFaceH4/MATH-500", revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", split="test"
    ),
    how_to_get="put math500.jsonl (id, problem, answer, subject, level) into the data folder, or allow the hub",
    read=_read,
    sampling=Sampling(num_samples=16, temperature=0.6, max_tokens=30_720, max_turns=30),
    metric="avg@16",
    digests=("5aeea176f1190aad48cd60c949068f57eb8d04fbd471f63b9f2c25c5289db4a1",),
    known_issues=(
        KnownIssue(
            problems=(), what="8 of the 500 problems occur in DAPO-Math-17k: report also without them"
        ),
    ),
)
