"""The entropy study finds built-in effects, and none in data without effects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.entropy import entropy
from analysis.entropy.controls import (
    NotAvailable,
    contrasts_of,
    guarded_contrast,
    turn_start_contrast,
    zone_lift,
)
from analysis.entropy.entropy_trace import choose_traces, trace_page
from analysis.inputs.runs import Run
from analysis.inputs.samples import read_tokens
from config.model import AnalysisSection

KEY = ["benchmark", "problem", "sample", "turn"]


@pytest.fixture(scope="module")
def tokens(run: Run) -> pd.DataFrame:
    return read_tokens(run.token_files()["rl3"])


def test_ceil_of_the_share_is_marked_in_every_trajectory(tokens: pd.DataFrame) -> None:
    high = entropy.mark_high(tokens, 0.2)
    groups = high.groupby([tokens[c] for c in ("benchmark", "problem", "sample")])
    assert (groups.sum() == np.ceil(0.2 * groups.size() - 1e-9)).all()


def test_marked_tokens_are_the_highest_of_their_trajectory(tokens: pd.DataFrame) -> None:
    one = tokens[(tokens["problem"] == tokens["problem"].iloc[0]) & (tokens["sample"] == 0)]
    high = entropy.mark_high(one, 0.2)
    assert one["entropy"][high].min() >= one["entropy"][~high].max()


def test_every_token_is_in_one_zone(tokens: pd.DataFrame) -> None:
    zone = entropy.zones(tokens, 6)
    assert set(zone) == {"forking", "reflection", "coding", "answer"}
    inside = tokens[zone == "reflection"]
    assert inside["distance"].max() == 5
    assert inside["after_tool"].notna().all()


def test_reflection_built_into_the_tokens_is_found(tokens: pd.DataFrame, settings: AnalysisSection) -> None:
    numbers, tables = entropy.study(tokens, settings)
    lift = tables["classes"].set_index("group")
    assert float(lift["lift_low"]["reflection"]) > 1.0
    assert float(lift["lift_high"]["coding"]) < 1.0
    assert "contrasts" not in numbers
    found = contrasts_of(tokens, settings)
    assert all(c["low"] > 0 for c in found["contrasts"])
    assert [c["a"] for c in found["contrasts"]] == ["forking", "coding"]
    assert found["not_available"] == []


def test_shares_add_up(tokens: pd.DataFrame, settings: AnalysisSection) -> None:
    high = entropy.mark_high(tokens, 0.2)
    table = entropy.shares(tokens, high, entropy.zones(tokens), settings)
    assert table["share_of_tokens"].sum() == pytest.approx(1.0)
    assert table["share_of_high"].sum() == pytest.approx(1.0)
    weighted = (table["lift"] * table["share_of_tokens"]).sum()
    assert weighted == pytest.approx(1.0)


def test_shuffled_entropies_show_no_contrast(tokens: pd.DataFrame, settings: AnalysisSection) -> None:
    rng = np.random.default_rng(1)
    shuffled = tokens.assign(entropy=tokens.groupby("problem")["entropy"].transform(rng.permutation))
    zone = entropy.zones(shuffled)
    contrast = entropy.zone_contrast(shuffled, zone, "forking", "reflection", settings)
    assert contrast is not None
    assert contrast["low"] < 0 < contrast["high"]


def test_the_profile_separates_ok_error_and_the_first_turn(
    tokens: pd.DataFrame, settings: AnalysisSection
) -> None:
    table = entropy.profile(tokens, settings)
    near = table[table["distance"] < 5].groupby("series")["mean"].mean()
    assert near["error"] > near["ok"] > near["first_turn"]


def test_the_same_text_scored_twice_overlaps_fully(tokens: pd.DataFrame, settings: AnalysisSection) -> None:
    (change,) = entropy.stage_changes({"rl2": tokens, "rl3": tokens}, settings)
    assert change["same_text"]
    assert change["top_overlap"] == 1.0
    assert change["mean_change"]["value"] == 0.0


def test_other_text_has_no_overlap_number(run: Run, tokens: pd.DataFrame, settings: AnalysisSection) -> None:
    (change,) = entropy.stage_changes({"sft": read_tokens(run.token_files()["sft"]), "rl3": tokens}, settings)
    assert not change["same_text"]
    assert change["top_overlap"] is None


def test_listed_words_are_marked_for_any_tokenization(tokens: pd.DataFrame) -> None:
    table = entropy.label_agreement(tokens, entropy.mark_high(tokens, 0.2))
    row = table.set_index("list").to_dict("index")["forking"]
    assert float(row["lift"]) > 1.5
    assert 0.0 < float(row["kappa"]) < 1.0


def test_traces_escape_text_and_need_nothing_from_outside(
    tokens: pd.DataFrame, settings: AnalysisSection
) -> None:
    evil = tokens.assign(text="<script>alert(1)</script>")
    page = trace_page(evil, settings, {}, "fake")
    assert "<script>alert" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_texts_of_a_private_benchmark_are_not_shown(tokens: pd.DataFrame) -> None:
    assert choose_traces(tokens.assign(benchmark="gpqa_diamond"), 0) == []


def without_response(tokens: pd.DataFrame, lower: float = 0.0) -> pd.DataFrame:
    """The table with half of its later turns begun without a tool response, `lower` nats lower at their start."""
    chosen = (tokens["turn"] > 0) & (tokens["sample"] == 1)
    entropy = tokens["entropy"].where(~chosen, (tokens["entropy"] - lower).clip(lower=0.0))
    return tokens.assign(
        entropy=entropy,
        after_tool=tokens["after_tool"].where(~chosen, None),
        distance=tokens["distance"].where(~chosen),
    )


def test_a_control_without_tokens_is_marked_and_not_judged(
    tokens: pd.DataFrame, settings: AnalysisSection
) -> None:
    found = turn_start_contrast(tokens, settings)
    assert found == NotAvailable("no later turn begins without a tool response before it")
    rows = {row["control"]: row for row in contrasts_of(tokens, settings)["controls"]}
    assert rows["later_turn_start"]["available"] is False
    assert "value" not in rows["later_turn_start"]


def test_a_later_turn_without_a_response_is_compared_position_by_position(
    tokens: pd.DataFrame, settings: AnalysisSection
) -> None:
    same = turn_start_contrast(without_response(tokens), settings)
    lower = turn_start_contrast(without_response(tokens, 0.6), settings)
    assert not isinstance(same, NotAvailable)
    assert not isinstance(lower, NotAvailable)
    assert abs(same["value"]) < 0.25
    assert lower["low"] > 0.2
    # A side that stops early is compared over its own length: entropy falls along a turn.
    short = without_response(tokens)
    kept = short[~((short["turn"] > 0) & short["distance"].isna() & (short.groupby(KEY).cumcount() >= 3))]
    found = turn_start_contrast(kept, settings)
    assert not isinstance(found, NotAvailable)
    assert abs(found["value"]) < 0.4


def test_reasoning_at_turn_starts_only_leaves_no_other_reasoning(
    tokens: pd.DataFrame, settings: AnalysisSection
) -> None:
    place = tokens.groupby(KEY).cumcount()
    starts = tokens[~((tokens["turn"] == 0) & (tokens["segment"] == "reason") & (place >= 8))]
    rest = starts[~((starts["turn"] == 1) & (starts["segment"] == "reason") & (starts["distance"] >= 12))]
    found = guarded_contrast(rest, "forking", "reflection", settings)
    assert isinstance(found, NotAvailable)
    assert "outside the first 12 tokens of a turn" in found.reason
    record = contrasts_of(rest, settings)
    assert record["contrasts"] == []
    assert [row["a"] for row in record["not_available"]] == ["forking", "coding"]
    control = next(row for row in record["controls"] if row["control"] == "first_turn_start")
    assert control["available"] is False
    assert "is the contrast itself" in control["reason"]


def test_the_lift_of_a_zone_is_that_of_the_table_with_an_honest_p(
    tokens: pd.DataFrame, settings: AnalysisSection
) -> None:
    high = entropy.mark_high(tokens, 0.2)
    table = entropy.shares(tokens, high, entropy.zones(tokens), settings).set_index("group")
    found = zone_lift(tokens, "reflection", settings)
    assert found is not None
    assert found["value"] == pytest.approx(float(table["lift"]["reflection"]))
    assert (found["low"], found["high"]) == pytest.approx(
        (float(table["lift_low"]["reflection"]), float(table["lift_high"]["reflection"]))
    )
    assert found["p"] == pytest.approx(2 / (settings.bootstrap_draws + 1))
    rng = np.random.default_rng(1)
    shuffled = tokens.assign(entropy=tokens.groupby("problem")["entropy"].transform(rng.permutation))
    null = zone_lift(shuffled, "reflection", settings)
    assert null is not None
    assert null["low"] < 1 < null["high"]
    assert null["p"] > 0.05
    assert zone_lift(tokens[tokens["segment"] == "answer"], "reflection", settings) is None
