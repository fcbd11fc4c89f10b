"""The headline: each score with its own controls, on the same questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analysis.claims.headline import control_rows
from analysis.inputs.runs import Run
from tests.analysis.fake_run import FakeRun


def test_chance_uses_the_checkpoints_own_questions(tmp_path: Path) -> None:
    """Another checkpoint answered fewer questions: its best constant answer is not comparable."""
    scores = Run.open(FakeRun(questions=4, k=1, tokens=False).write(tmp_path / "run")).scores()
    own = next(s for s in scores if s.metric == "chance")
    other = replace(own, checkpoint="base", value=0.5, num_questions=3)
    rows = {row["control"]: row["value"] for row in control_rows([other, *scores])}
    assert rows["chance"] == own.value
    assert set(rows) == {"none", "tool_off", "shuffled_golds", "mute", "chance"}
