"""Verdicts on invented runs: a clear effect, none, an opposite one, too few seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from analysis.claims.claims import Effect, Verdict, decide, judge, reachable
from analysis.claims.effects import arm_difference
from analysis.claims.endpoints import ArmDifference, Claim, NoEndpoint, Published, read_claims
from analysis.claims.invented import reached
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from bench.publish import publish
from config.model import AnalysisSection
from records.arm_record import ArmRecord
from records.errors import ConfigError
from tests.analysis.conftest import REFERENCE, measured
from tests.analysis.fake_benches import SCHEDULER_BENCH
from tests.analysis.fake_run import FakeRun, publish_tokens
from tests.analysis.settings import SETTINGS

CLAIMS = read_claims(REFERENCE / "claims.yaml")
BY_ID = {claim.id: claim for claim in CLAIMS}
ACCURACY = ArmDifference(kind="arm_difference", a="grpo_g", b="roc_paper", metric="accuracy")


def _claim(**changes: object) -> Claim:
    base: dict[str, object] = {
        "id": "x",
        "text": "t",
        "source": [],
        "published": [],
        "evidence": "proxy",
        "endpoint": NoEndpoint(kind="none"),
        "direction": "up",
        "unit": "question",
        "family": "f",
        "criterion": "c",
    }
    return Claim.model_validate(base | changes)


def _verdicts(run: Run, settings: AnalysisSection, preset: str = "tiny") -> dict[str, str]:
    rows = judge(CLAIMS, measured(run, settings), preset=preset)
    return {row.id: row.verdict for row in rows}


def _record(arm: str, origin: str, seed: int, accuracy: float) -> ArmRecord:
    return ArmRecord(arm=arm, origin=origin, seed=seed, text="", endpoints={"accuracy": accuracy}, curve=[])


@pytest.mark.parametrize(
    ("low", "high", "evidence", "direction", "expected"),
    [
        (0.1, 0.3, "direct", "up", Verdict.SUPPORTED),
        (0.1, 0.3, "direct", "down", Verdict.CONTRADICTED),
        (0.1, 0.3, "proxy", "up", Verdict.SAME_DIRECTION),
        (0.1, 0.3, "simulated", "down", Verdict.OPPOSITE),
        (-0.1, 0.3, "direct", "up", Verdict.INCONCLUSIVE),
        (-0.3, -0.1, "proxy", "down", Verdict.SAME_DIRECTION),
        (0.0, 0.3, "proxy", "up", Verdict.INCONCLUSIVE),
    ],
)
def test_a_verdict_follows_the_interval_and_the_evidence(
    low: float, high: float, evidence: str, direction: str, expected: Verdict
) -> None:
    claim = _claim(evidence=evidence, direction=direction)
    assert decide(claim, Effect(value=(low + high) / 2, low=low, high=high)) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.02, 0.02, Verdict.SUPPORTED),
        (-0.05, 0.02, Verdict.INCONCLUSIVE),
        (-0.09, -0.04, Verdict.CONTRADICTED),
    ],
)
def test_held_means_inside_the_margin(low: float, high: float, expected: Verdict) -> None:
    claim = _claim(evidence="direct", direction="held", margin=0.03)
    assert decide(claim, Effect(value=0.0, low=low, high=high)) is expected


def test_four_checkpoints_are_inconclusive_for_any_interval() -> None:
    claim = BY_ID["roc-accuracy"]
    assert decide(claim, Effect(value=1, low=0.9, high=1.1, num_units=4)) is Verdict.INCONCLUSIVE
    assert decide(claim, Effect(value=1, low=0.9, high=1.1, num_units=5)) is Verdict.SAME_DIRECTION


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.endpoint.kind != "none"], ids=lambda c: c.id)
def test_every_row_can_come_out_in_each_way_that_it_allows(claim: Claim, reference: Reference) -> None:
    """Thirteen rows could not: a text with the wrong sign, a margin under its noise, one run where seeds were due."""
    assert reached(claim, reference, SETTINGS) == reachable(claim)


@pytest.mark.parametrize(
    ("unit", "endpoint"),
    [
        ("question", {"kind": "arm_difference", "a": "a", "b": "b", "metric": "accuracy"}),
        ("checkpoint", {"kind": "zone_lift", "zone": "coding"}),
    ],
)
def test_the_unit_of_arms_is_the_checkpoint(unit: str, endpoint: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="SFT checkpoint"):
        _claim(unit=unit, endpoint=endpoint)


def test_a_clear_gain_reads_same_direction_and_never_supported(
    tmp_path: Path, settings: AnalysisSection
) -> None:
    skill = (("base", 0.0), ("sft", 0.2), ("rl1", 0.4), ("rl2", 0.6), ("rl3", 0.8))
    run = Run.open(FakeRun(questions=40, skill=skill, tokens=False).write(tmp_path / "gain"))
    found = _verdicts(run, settings)
    assert found["rl-over-sft-numbers"] == Verdict.SAME_DIRECTION
    assert found["stage-1-gain"] == Verdict.OPPOSITE  # a third of the gain is not most of it
    assert found["stage-2-gain"] == Verdict.SAME_DIRECTION
    assert found["rl-over-sft-aime24"] == Verdict.NOT_RUN
    assert Verdict.SUPPORTED not in found.values()
    assert Verdict.CONTRADICTED not in found.values()


def test_a_loss_reads_opposite(tmp_path: Path, settings: AnalysisSection) -> None:
    skill = (("base", 0.0), ("sft", 0.8), ("rl1", 0.6), ("rl2", 0.4), ("rl3", 0.2))
    run = Run.open(FakeRun(questions=40, skill=skill, tokens=False).write(tmp_path / "loss"))
    assert _verdicts(run, settings)["rl-over-sft-numbers"] == Verdict.OPPOSITE


def test_no_change_reads_inconclusive(tmp_path: Path, settings: AnalysisSection) -> None:
    skill = tuple((name, 0.5) for name in ("base", "sft", "rl1", "rl2", "rl3"))
    run = Run.open(FakeRun(questions=40, skill=skill, tokens=False).write(tmp_path / "flat"))
    found = _verdicts(run, settings)
    assert found["rl-over-sft-numbers"] == Verdict.INCONCLUSIVE
    assert found["stage-2-gain"] == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("effect", "checkpoints", "expected"),
    [
        (0.2, 5, Verdict.SAME_DIRECTION),
        (-0.2, 5, Verdict.OPPOSITE),
        (0.0, 5, Verdict.INCONCLUSIVE),
        (0.2, 4, Verdict.INCONCLUSIVE),
        (0.2, 1, Verdict.INCONCLUSIVE),
    ],
)
def test_arms_are_judged_by_checkpoint(effect: float, checkpoints: int, expected: Verdict) -> None:
    """Nine seeds each: many seeds of few checkpoints decide nothing about checkpoints trained alike."""
    rng = np.random.default_rng(0)
    records = [
        _record(arm, f"sft_{c}", seed, level + float(rng.normal(0, 0.01)))
        for c in range(checkpoints)
        for seed in range(9)
        for arm, level in (("grpo_g", 0.5), ("roc_paper", 0.5 + effect))
    ]
    found = arm_difference(records, ACCURACY, 0.95)
    assert found is not None
    assert (found.num_units, decide(BY_ID["roc-accuracy"], found)) == (checkpoints, expected)


def test_checkpoints_of_another_teacher_answer_another_question() -> None:
    """The page left these records out and the claims took them in, so one row had two answers."""
    records = [
        _record(arm, origin, 0, value)
        for origin, gain in (("main", 0.1), ("teacher_errors_40", 0.9))
        for arm, value in (("grpo_g", 0.0), ("roc_paper", gain))
    ]
    found = arm_difference(records, ACCURACY, 0.95)
    assert found is not None
    assert found.value == pytest.approx(0.1)


def test_an_arm_that_was_not_run_is_not_judged(run: Run, settings: AnalysisSection) -> None:
    assert _verdicts(run, settings)["roc-penalty-alone"] == Verdict.NOT_RUN


def test_entropy_claims_of_a_built_in_effect(run: Run, settings: AnalysisSection) -> None:
    found = _verdicts(run, settings)
    for name in (
        "reflection-tokens",
        "reflection-against-reasoning",
        "coding-tokens",
        "coding-against-reasoning",
    ):
        assert found[name] == Verdict.SAME_DIRECTION


def test_an_impossible_contrast_is_marked_and_in_no_family(run: Run, settings: AnalysisSection) -> None:
    """The control of the fake run is empty: no later turn begins without a tool response."""
    rows = {row.id: row for row in judge(CLAIMS, measured(run, settings), preset="tiny")}
    marked = rows["reflection-beyond-turn-start"]
    assert marked.verdict == Verdict.NOT_TESTABLE
    assert marked.note == "not available: no later turn begins without a tool response before it"
    assert (marked.value, marked.p_holm) == (None, None)
    levels = {row.confidence or 0.0 for row in rows.values() if row.family == "entropy" and row.p is not None}
    assert min(levels) >= 0.95
    assert max(levels) == pytest.approx(1 - 0.05 / 5)  # five tests, not six


def test_the_reflection_claims_match_their_measures(settings: AnalysisSection, tmp_path: Path) -> None:
    """Over-represented among the top share, and still less uncertain than other reasoning: two rows, two words."""
    claims = [claim for claim in CLAIMS if claim.id in ("reflection-tokens", "reflection-against-reasoning")]
    root = FakeRun(questions=2, k=1, metrics=False, only=("sft", "rl3")).write(tmp_path / "run")
    path = root / "score" / "rl3" / "tokens.parquet"
    tokens = pd.read_parquet(path)
    reason = tokens["segment"] == "reason"
    level = np.select([reason & (tokens["turn"] == 1), reason], [1.0, 2.0], 0.1)
    tokens["entropy"] = level + np.random.default_rng(0).uniform(0, 0.01, len(tokens))
    tokens.to_parquet(path)
    publish_tokens(root, "rl3")
    # 20% of a trajectory is less than its 14 tokens of first reasoning: take as many as reach the second.
    wide = settings.model_copy(update={"top_entropy_frac": 0.6})
    found = {row.id: row for row in judge(claims, measured(Run.open(root), wide), preset="tiny")}
    assert found["reflection-tokens"].verdict == Verdict.SAME_DIRECTION
    assert found["reflection-against-reasoning"].verdict == Verdict.OPPOSITE


def test_direct_claims_are_tested_in_presets_that_can(run: Run, settings: AnalysisSection) -> None:
    found = _verdicts(run, settings, preset="paper")
    assert found["aime24-released"] == Verdict.CONTRADICTED
    assert found["length-aime24-against-qwq"] == Verdict.SUPPORTED
    assert found["gpqa-rises"] == Verdict.NOT_RUN


def test_published_numbers_alone_give_few_verdicts(run: Run, settings: AnalysisSection) -> None:
    found = _verdicts(run, settings)
    assert found["aime24-ahead-of-r1"] == Verdict.INCONCLUSIVE
    assert found["aime25-against-r1"] == Verdict.INCONCLUSIVE
    exact = {name: found[name] for name in found if isinstance(BY_ID[name].endpoint, Published)}
    disagree = {"claude-lead", "granularity-rl2-aime24", "granularity-qwen3-14b", "granularity-qwq",
                "granularity-o3-mini", "granularity-retool", "sum-rl-candidates", "stage-3-filter"}  # fmt: skip
    assert {name for name, word in exact.items() if word == Verdict.DISAGREES} == disagree
    assert {word for name, word in exact.items() if name not in disagree} == {Verdict.AGREES}


def test_the_budget_of_510_steps_is_computed_from_the_published_numbers(reference: Reference) -> None:
    training, steps = reference["training"], reference["stages"]["rows"]["rl3"][0]
    sampled = steps * training["prompts_per_step"] * training["rollouts_per_prompt"]
    hours = training["gpus"] * training["days"] * 24
    criterion = BY_ID["budget-510-steps"].criterion
    assert (
        f"{sampled:,} sampled and at most {sampled // 2:,} trained rollouts, in {hours:,} GPU-hours"
        in criterion
    )


def test_the_scheduler_is_judged_by_workload_seed(
    run: Run, settings: AnalysisSection, tmp_path: Path
) -> None:
    assert _verdicts(run, settings)["scheduler-gain"] == Verdict.SAME_DIRECTION
    root = FakeRun(questions=2, k=1, tokens=False, only=("sft", "rl3")).write(tmp_path / "quick")
    runs = [row for row in SCHEDULER_BENCH["runs"] if row["seed"] == 1]
    publish(root, "scheduler", SCHEDULER_BENCH | {"runs": runs}, 1.0)
    assert _verdicts(Run.open(root), settings)["scheduler-gain"] == Verdict.INCONCLUSIVE


def test_press_numbers_are_never_targets(run: Run, settings: AnalysisSection) -> None:
    found = _verdicts(run, settings)
    press = [claim.id for claim in CLAIMS if claim.press_only]
    assert len(press) >= 4
    assert {found[name] for name in press} == {Verdict.NOT_TESTABLE}


def test_a_claim_that_is_not_run_states_its_requirements(run: Run, settings: AnalysisSection) -> None:
    rows = judge(CLAIMS, measured(run, settings), preset="tiny")
    assert all(row.cost for row in rows if row.verdict == Verdict.NOT_RUN)


def test_holm_widens_intervals_within_a_family(run: Run, settings: AnalysisSection) -> None:
    rows = judge(CLAIMS, measured(run, settings), preset="tiny")
    levels = [row.confidence or 0.0 for row in rows if row.family == "rl-over-sft"]
    assert max(levels) == pytest.approx(1 - 0.05 / 4)
    for row in rows:
        if row.p_holm is not None and row.p is not None:
            assert row.p_holm >= row.p


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {id: a}", "text"),
        ("][", "not YAML"),
        ("- {id: A B}", "id"),
    ],
)
def test_a_wrong_claims_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_claims(path)


def test_an_id_used_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"
    text = (REFERENCE / "claims.yaml").read_text(encoding="utf-8")
    start = text.index("- id: claude-lead")
    path.write_text(text + text[start : text.index("- id: gain-over")])
    with pytest.raises(ConfigError, match="claude-lead is used twice"):
        read_claims(path)
