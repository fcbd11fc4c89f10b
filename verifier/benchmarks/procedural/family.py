"""Test ring: families that training never held."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("family", "test-family.jsonl", "New family")
