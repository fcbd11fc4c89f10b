"""The benchmarks of the suite. Adding one is one file that defines a `Benchmark`, one line here and one test."""

from __future__ import annotations

from verifier.benchmarks import (
    aime24,
    aime25,
    bfcl_v3,
    gpqa_diamond,
    gsm8k,
    hmmt25,
    ifeval,
    math500,
    procedural,
)
from verifier.benchmarks.declaration import (
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

ALL: tuple[Benchmark, ...] = (
    aime24.BENCHMARK,
    aime25.BENCHMARK,
    math500.BENCHMARK,
    gpqa_diamond.BENCHMARK,
    bfcl_v3.BENCHMARK,
    bfcl_v3.PROMPT_MODE,
    bfcl_v3.PATH_CHECK,
    ifeval.BENCHMARK,
    hmmt25.BENCHMARK,
    gsm8k.BENCHMARK,
    procedural.NUMBERS,
    procedural.COMPOSITION,
    procedural.FAMILY,
    procedural.DEV,
)
NAMES: tuple[str, ...] = tuple(benchmark.name for benchmark in ALL)


def benchmark(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises:
        ValueError: there is none; the message lists the names.

    >>> benchmark("aime24").num_questions
    30
    """
    for candidate in ALL:
        if candidate.name == name:
            return candidate
    raise ValueError(f"no benchmark {name!r}; known: {', '.join(NAMES)}")


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
