"""HMMT February 2025: 30 problems with exact, not always integer answers. Tested on invented rows only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifier.declaration import Benchmark, HubSource, KnownIssue


def _read(row: Mapping[str, Any], index: int) -> Any:
    from records.problem import Problem

    number = row.get("problem_idx", index + 1)
    answer = str(row["answer"]).strip()
    return Problem(id=str(row.get("id") or f"hmmt25-feb-{number}"), prompt=row["problem"], answer=answer)


BENCHMARK = Benchmark(
    name="hmmt25",
    title="HMMT February 2025",
    num_questions=30,
    version="February 2025",
    file="hmmt25.jsonl",
    hub=HubSource(id="MathArena/hmmt_feb_2025", revision="main", split="train"),
    how_to_get="put hmmt25.jsonl (id, problem, answer) into the data folder, or allow access to the hub",
    read=_read,
    known_issues=(
        KnownIssue(
            problems=(),
            what="no copy was available: neither digest nor revision is pinned",
        ),
    ),
)
