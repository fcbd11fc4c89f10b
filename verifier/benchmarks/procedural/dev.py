"""The set that tuning may look at."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("dev", "dev.jsonl", "Dev set")
