"""Test ring: pairs of trained families that training never joined."""

from __future__ import annotations

from verifier.benchmarks.procedural import problem_set

BENCHMARK = problem_set("composition", "test-composition.jsonl", "New composition")
