"""Test ring: trained families with numbers that training never drew."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("numbers", "test-numbers.jsonl", "New numbers")
