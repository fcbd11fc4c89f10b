"""`benchmark`: the benchmarks of the suite; each module of this folder declares one as `BENCHMARK`.

The name of a benchmark is the path of its file below this folder, with '-' between folders (`procedural-dev`).

- `gpqa_diamond`: `LETTERS`, `letter_histogram`, `option_order`, `rearrange`
"""

from __future__ import annotations

from records.declarations import declared
from records.errors import require_known
from verifier.declaration import (
    Benchmark,
    DataUnavailable,
    HubSource,
    KnownIssue,
    PromptKind,
    Sampling,
    Scoring,
    WrongData,
    digest,
)

ALL = declared(__name__, "BENCHMARK", Benchmark)
"""In the order of their files."""
NAMES = tuple(benchmark.name for benchmark in ALL)


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        ConfigError: no such benchmark; the message gives the nearest name.

    >>> benchmark("aime24").num_questions
    30
    """
    require_known(name, NAMES, "benchmark")
    return next(candidate for candidate in ALL if candidate.name == name)


__all__ = [
    "ALL",
    "NAMES",
    "Benchmark",
    "DataUnavailable",
    "HubSource",
    "KnownIssue",
    "PromptKind",
    "Sampling",
    "Scoring",
    "WrongData",
    "benchmark",
    "digest",
]
