"""`make_run`: a run with a random checkpoint and a few problems in each ring of the procedural test."""

from __future__ import annotations

import json
from pathlib import Path

from records import evaluation
from records.problem import Problem
from tests.trainer.tiny_checkpoint import make_checkpoint

RINGS = tuple(name.removeprefix("procedural-") for name in evaluation.RINGS)


def make_run(root: Path, num_problems: int) -> Path:
    """Write checkpoint `sft` and `num_problems` sums per ring into an empty folder; return it."""
    make_checkpoint(root)
    (root / "data").mkdir()
    for ring in RINGS:
        problems = [
            Problem(
                id=f"{ring}-{i}", prompt=f"What is {i} + {i}?", answer=str(2 * i), family="sum", split=ring
            )
            for i in range(num_problems)
        ]
        lines = "".join(json.dumps(problem.to_json()) + "\n" for problem in problems)
        (root / "data" / f"test-{ring}.jsonl").write_text(lines)
    return root
