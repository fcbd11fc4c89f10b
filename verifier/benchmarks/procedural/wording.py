"""Test ring: trained families in wordings that training never held."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("wording", "test-wording.jsonl", "New wording")
