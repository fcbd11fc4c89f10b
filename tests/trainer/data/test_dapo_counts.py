"""The recipe of DAPO-Math-17k on the real rows: every count equals the one that was found by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.recipes import load_recipe
from records.data_card import CARD, DataCard
from records.stored import read_record
from tests.trainer.data.recipe_run import run


@pytest.mark.slow
@pytest.mark.shared
def test_the_counts_of_dapo_are_those_of_the_fact_sheet(
    project_root: Path, shared_dir: Path, tmp_path: Path
) -> None:
    recipe = project_root / "config" / "recipes" / "dapo.yaml"
    assert load_recipe(str(recipe)).title.startswith("DAPO-Math-17k")
    run(recipe, shared_dir / "data", tmp_path, workers=2, shard=5000)
    card = read_record(DataCard, tmp_path / "made" / CARD, "run the recipe again")
    survey = card.sources[0].survey
    assert survey is not None
    assert (survey.languages["zh"], survey.num_conflicting, survey.num_negative) == (3432, 21, 366)
    overlaps = {report.name: report for report in survey.overlaps}
    assert overlaps["math_test"].num_same_words == 977
    assert overlaps["math500"].num_same_words == 8
    assert [(overlaps[name].num_flagged, overlaps[name].num_naive) for name in ("aime24", "aime25")] == [
        (0, 9),
        (0, 12),
    ]
    steps = {step.step: step.removed for step in card.funnels["problems"]}
    assert steps == {
        "read": 0,
        "other_language": 3432,
        "huge_answer": 8,
        "conflicting_answers": 42,
        "repeated_problem": 892,
        "near_duplicate": 270,
        "in_a_benchmark": 31,
        "repeated_id": 0,
    }
    assert card.funnels["problems"][-1].left == 13_242
