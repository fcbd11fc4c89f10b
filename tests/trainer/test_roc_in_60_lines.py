"""docs/roc_in_60_lines.py runs as printed, and its gradient is that of the paper's Eq. 6 and 7 by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def test_the_example_gives_the_gradient_of_a_hand_computation(project_root: Path) -> None:
    path = project_root / "docs" / "roc_in_60_lines.py"
    spec = importlib.util.spec_from_file_location("roc_in_60_lines", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    gradient = example.main()
    # Kept: two right ones of 3 and 4 tokens, two wrong ones of 2 and 4; (1 - 0.5) / std of {1, 1, 0, 0} = 0.866.
    each = 0.5 / (1 / 3) ** 0.5 / 13
    rows = [[-each] * 3 + [0.0], [-each] * 4, [each] * 2 + [0.0] * 2, [each] * 4]
    assert gradient.tolist() == [pytest.approx(row, abs=1e-7) for row in rows]
    assert len(path.read_text().splitlines()) <= 60
