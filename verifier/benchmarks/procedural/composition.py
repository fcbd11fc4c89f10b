"""Test ring: pairs of trained families in an order that training never had; it had the other one."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("composition", "test-composition.jsonl", "Known pairs in the other order")
