"""`listing`: the benchmarks, and whether each can run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from verifier.benchmarks import ALL, Benchmark, DataUnavailable, WrongData, digest


def listing(data: Path | None, *, hub: bool = False) -> list[dict[str, Any]]:
    """Return one row per benchmark: name, title, num_questions, digest, version, source, status, known issues.

    Args:
        data: the data folder, if any.
        hub: also query the hub for missing benchmarks (slow without a network).
    """
    return [_row(benchmark, data, hub) for benchmark in ALL]


def _row(benchmark: Benchmark, data: Path | None, hub: bool) -> dict[str, Any]:
    num_questions, found = benchmark.num_questions, ""
    source = f"hub {benchmark.hub.id}@{benchmark.hub.revision[:8]}" if benchmark.hub else ""
    if not hub and (data is None or not (data / benchmark.file).exists()):
        status = f"not evaluated: {benchmark.how_to_get}"
    else:
        try:
            problems = benchmark.load(data)
            num_questions, found = len(problems), digest(problems)
            status = "reachable"
        except (DataUnavailable, WrongData) as error:
            status = str(error).removeprefix(f"{benchmark.name}: ")
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "num_questions": num_questions,
        "digest": found or (benchmark.digests[0] if benchmark.digests else ""),
        "version": benchmark.version,
        "file": benchmark.file,
        "source": source,
        "metric": benchmark.metric,
        "reachable": status == "reachable",
        "status": status,
        "known_issues": [
            {"problems": list(issue.problems), "what": issue.what} for issue in benchmark.known_issues
        ],
    }
