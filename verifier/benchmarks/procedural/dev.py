"""Dev set: the only problems that tuning may use."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("dev", "dev.jsonl", "Dev set")
