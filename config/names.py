"""Names of what other packages define, so that a wrong one is refused before the first job.

The packages stay the source: `tests/config/test_names.py` compares.
"""

from __future__ import annotations

BENCHMARKS = (
    "procedural",
    "procedural-numbers",
    "procedural-composition",
    "procedural-family",
    "procedural-dev",
    "aime24",
    "aime25",
    "hmmt25",
    "math500",
    "gsm8k",
    "gpqa_diamond",
    "bfcl_v3",
    "bfcl_v3_prompt",
    "bfcl_v3_path",
    "ifeval",
)
"""`verifier.benchmarks`, and `procedural` for its three test rings together."""
RINGS = ("procedural-numbers", "procedural-composition", "procedural-family")
RESERVED_RUNS = ("reference", "baselines")
"""Folders of results/ that hold published numbers, not runs."""
