"""Comparison of arms: hand tables, a clear effect, none, an opposite one, too few; the text of the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.claims.endpoints import ArmDifference, read_claims
from analysis.cli import app
from analysis.experiments import doses
from analysis.experiments.ablations import clip_grid, sentences
from analysis.experiments.arms import (
    CONTRASTS,
    ENDPOINTS,
    MAIN_ARMS,
    at_equal_cost,
    by_arm,
    difference,
    endpoint,
    over_origins,
    read_run_arms,
    records_in,
    smoothed,
    untouched_teacher,
)
from analysis.experiments.sampling_grid import grid_of, table_of
from analysis.inputs.runs import Run
from analysis.tables.arms import pair_grid
from config.arms import ablation_runs, load_arms
from evaluation.experiments.endpoints import MEANS
from records.arm_record import ArmRecord, CurvePoint
from records.errors import ConfigError
from records.evaluation import RINGS, EvaluationSummary
from records.trajectory import Trajectory
from records.trajectory_files import write_parquet
from tests.analysis.fake_run import FakeRun, fake_trajectories, plan, publish, score_row
from tests.analysis.settings import SETTINGS

CLAIMS = Path(__file__).parents[2] / "results" / "reference" / "claims.yaml"
PAIRS = [(origin, seed) for origin in ("main", "sft_seed_1", "sft_seed_2", "main@other") for seed in (0, 1)]


def record(
    arm: str, origin: str, seed: int, accuracy: float, *, rollouts: int = 100, **more: float
) -> ArmRecord:
    return ArmRecord(
        arm=arm,
        origin=origin,
        seed=seed,
        text=f"what {arm} is",
        endpoints={"accuracy": accuracy, "tool_error_frac_correct": 0.1, "response_len_correct_mean": 60.0} | more,
        curve=[
            CurvePoint(
                step=s, rollouts=rollouts * s, sampled_tokens=40 * rollouts * s, seconds=rollouts * s / 50,
                accuracy=accuracy * s / 6, tool_error_frac_correct=0.2, response_len_correct_mean=60.0,
            )
            for s in range(1, 7)
        ],
    )  # fmt: skip


def records(effect: float, noise: float = 0.005) -> list[ArmRecord]:
    rng = np.random.default_rng(0)
    found = []
    for origin, seed in PAIRS:
        base = float(rng.normal(0.5, 0.05))
        found += [
            record(arm, origin, seed, base + shift + float(rng.normal(0, noise)), rollouts=cost)
            for arm, shift, cost in (
                ("grpo_g", 0.0, 100), ("grpo_2g", 0.0, 200), ("random_2g_to_g", 0.0, 200), ("roc_paper", effect, 200),
            )
        ]  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("effect", "word"), [(0.2, "above 0"), (-0.2, "below 0"), (0.0, "not distinguished from 0")]
)
def test_the_page_states_the_direction_of_an_effect(effect: float, word: str) -> None:
    penalty = sentences(records(effect, 0.0001 if effect else 0.02), 0.95)[1]
    assert penalty.startswith("The penalty alone changes the sealed test by ")
    assert "(roc_paper - random_2g_to_g, 4 SFT checkpoints, smallest effect shown " in penalty
    assert penalty.endswith(f": {word}.")


def test_a_contrast_without_three_checkpoints_reads_as_not_measured() -> None:
    only = [r for r in records(0.1) if r.arm != "grpo_2g" and r.origin != "sft_seed_2"]
    assert sentences(only, 0.95)[5].endswith("not measured on 3 SFT checkpoints (roc_paper - grpo_2g).")
    two = [r for r in records(0.1) if r.origin in ("main", "sft_seed_1")]
    assert "not measured on 3 SFT checkpoints" in sentences(two, 0.95)[1]


def test_all_pairs_of_the_main_arms_are_in_one_table_with_holm_over_them() -> None:
    grid = pair_grid(records(0.1), 0.95)
    ((heading, rows),) = grid.groups.items()
    assert (len(rows), heading) == (
        6,
        "percentage points; Holm over 6 pairs of arms",
    )  # four arms in the records
    assert len(CONTRASTS) == len({frozenset(c[:2]) for c in CONTRASTS}) == math.comb(len(MAIN_ARMS), 2)
    for row in rows:
        assert float(row[-1]) >= float(row[-2])
    assert next(row for row in rows if row[0].startswith("grpo_2g - grpo_g"))[1] == "8"


def test_one_run_under_two_machines_is_refused(tmp_path: Path) -> None:
    """The same run counted twice halves the variance (teacher_errors_0 was in two folders, equal in every digit)."""
    for machine, seconds in (("a", 1.0), ("b", 2.0)):
        (tmp_path / machine).mkdir()
        one = replace(record("roc_paper", "main", 0, 0.5), seconds=seconds)
        one.write(tmp_path / machine / f"{one.name}.json")
    with pytest.raises(ConfigError, match="main@a and main@b hold the same run"):
        records_in(tmp_path)


def test_the_stored_baselines_hold_no_run_twice() -> None:
    found = records_in(CLAIMS.parents[1] / "baselines" / "tiny" / "arms")
    assert len(found) == 333
    arms = by_arm(untouched_teacher(found))
    accuracy = {arm: endpoint(arms[arm], "accuracy") for arm in ("random_2g_to_g", "roc_paper")}
    contrast = difference(accuracy["random_2g_to_g"], accuracy["roc_paper"], 0.95)
    assert contrast is not None
    assert (contrast.num_pairs, len(contrast.by_origin)) == (21, 7)


def test_pairs_that_only_one_arm_has_do_not_count() -> None:
    a = {("main", 0): 0.1, ("main", 1): 0.2}
    found = difference(a, {("main", 1): 0.5, ("main", 2): 0.9}, 0.95)
    assert found is not None
    assert (found.num_pairs, round(found.value, 6), found.low, found.p) == (1, 0.3, -math.inf, None)
    assert difference(a, {("other", 0): 1.0}, 0.95) is None


def test_records_of_another_machine_are_another_checkpoint(tmp_path: Path) -> None:
    """Paired across machines, the difference of two SFT models would count as one of arms."""
    for folder, shift in (("", 0.0), ("other", 0.3)):
        (tmp_path / folder).mkdir(exist_ok=True)
        for arm, accuracy in (("grpo_g", 0.4), ("roc_paper", 0.5)):
            record(arm, "main", 0, accuracy + shift).write(tmp_path / folder / f"{arm}-main-0.json")
    found = records_in(tmp_path)
    assert {r.origin for r in found} == {"main", "main@other"}
    accuracy = {
        arm: {pair: r.endpoints["accuracy"] for pair, r in runs.items()}
        for arm, runs in by_arm(found).items()
    }
    pairs = difference(accuracy["grpo_g"], accuracy["roc_paper"], 0.95)
    assert pairs is not None
    assert (pairs.num_pairs, round(pairs.value, 6)) == (2, 0.1)


def test_over_checkpoints_many_seeds_of_one_count_once() -> None:
    """Nine seeds at +1 of one checkpoint, one at -1 and at 0 of others: clear over pairs, open over checkpoints."""
    effect = {("main", seed): 0.01 for seed in range(9)} | {("main@other", 0): -0.01, ("sft_seed_1", 0): 0.0}
    found = difference(dict.fromkeys(effect, 0.0), effect, 0.95)
    assert found is not None
    wide = over_origins(found, 0.95)
    assert wide is not None
    assert found.low > 0
    assert (wide.num_pairs, round(wide.value, 6), wide.low < 0 < wide.high) == (3, 0.0, True)
    two = dict.fromkeys(PAIRS[:4], 0.1)
    few = difference(dict.fromkeys(two, 0.0), two, 0.95)
    assert few is not None
    assert over_origins(few, 0.95) is None


def test_a_teacher_of_another_machine_is_a_dose_but_not_in_the_contrasts() -> None:
    found = [
        record(arm, origin, seed, accuracy)
        for origin, b in (("main", 0.5), ("teacher_errors_40", 0.9), ("teacher_errors_40@other", 0.9))
        for arm, accuracy in (("random_2g_to_g", 0.5), ("roc_paper", b))
        for seed in (0, 1)
    ]
    table = doses.table_of(found, 0.95)
    taught = table[(table["noise"] == "the teacher errs") & (table["endpoint"] == "accuracy")]
    assert taught[["dose", "num_pairs"]].to_numpy().tolist() == [[0.4, 4]]


def test_equal_cost_is_the_cost_of_the_cheaper_arm() -> None:
    """Both rise by 0.1 a step; at equal rollouts the dear arm has made half the steps.

    The cheap arm's last window is steps 4 to 6, measured after 3 to 5 steps: 400 rollouts, where the dear arm is
    between its first window (0 to 2 steps: 200 rollouts, accuracy .2) and its second (400 rollouts, .3).
    """
    arms = by_arm([record("cheap", "main", s, 0.6, rollouts=100) for s in (0, 1)] +
                  [record("dear", "main", s, 0.6, rollouts=200) for s in (0, 1)])  # fmt: skip
    steps = at_equal_cost(arms["cheap"], arms["dear"], "step", 0.95)
    rollouts = at_equal_cost(arms["cheap"], arms["dear"], "rollouts", 0.95)
    assert steps is not None
    assert rollouts is not None
    assert steps.value == pytest.approx(0.0)
    assert rollouts.value == pytest.approx(0.3 - 0.5)


def test_the_clip_table_shows_shares_and_the_effect_of_the_upper_bound() -> None:
    found = []
    for seed in (0, 1):
        low = 0.5 + 0.01 * seed
        found.append(record("updates_8", "main", seed, 0.6, clip_high_frac=0.002, clip_low_frac=0.001))
        found.append(
            record("updates_8_clip_020", "main", seed, low, clip_high_frac=0.004, clip_low_frac=0.001)
        )
    rows = clip_grid(found, 0.95).groups["share of trained tokens, last third"]
    assert rows[0][:4] == ["updates_8", "2", "0.100", "0.200"]
    assert rows[1][:4] == ["updates_8_clip_020", "2", "0.100", "0.400"]
    assert rows[1][5].startswith("+9.5")


def test_a_dose_is_read_from_every_checkpoint_with_noise_and_from_no_other() -> None:
    """The dose of 0 must not come from checkpoints that no other dose has."""
    plain = [
        record(arm, origin, 0, accuracy)
        for origin in ("main", "main_b", "sft_seed_1")
        for arm, accuracy in (("random_2g_to_g", 0.5), ("roc_paper", 0.9 if origin == "sft_seed_1" else 0.6))
    ]
    noisy = [
        record(arm, origin, 0, accuracy)
        for origin in ("main", "main_b")
        for arm, accuracy in (("random_tool_fails_20", 0.4), ("roc_tool_fails_20", 0.6))
    ]
    table = doses.table_of(plain + noisy, 0.95)
    found = table[table["endpoint"] == "accuracy"]
    assert found["dose"].tolist() == [0.0, 0.2]
    assert found["value"].tolist() == pytest.approx([0.1, 0.2])
    assert found["num_pairs"].tolist() == [2, 2]


def test_doses_name_arms_that_are_run() -> None:
    runs = {(run.arm, run.origin) for run in ablation_runs()}
    assert {(arm, "main") for pair in doses.OUTSIDE.values() for arm in pair} <= runs
    assert {
        (arm, origin) for arm in ("random_2g_to_g", "roc_paper") for origin in doses.TEACHER.values()
    } <= runs


def write_member(folder: Path, member: str, skill: float) -> None:
    """A folder as `evaluate` writes it: 7 questions a ring with 4 samples at two temperatures."""
    rng = np.random.default_rng(len(member))
    scores: list[dict[str, Any]] = []
    trajectories: list[Trajectory] = []
    for temperature in (0.6, 1.0):
        outcomes = {
            ring: {f"{ring}-{q}": (rng.random(4) < skill).astype(float).tolist() for q in range(7)}
            for ring in RINGS
        }
        pooled = {question: values for part in outcomes.values() for question, values in part.items()}
        for grader in ("strict", "rstar_compat"):
            row = score_row(member, "procedural", pooled, k=4, temperature=temperature, grader=grader)
            scores.append(row)
        made = fake_trajectories("grid", member, outcomes, rng)
        trajectories += [replace(trajectory, T=temperature) for trajectory in made]
    write_parquet(trajectories, folder / "samples.parquet")
    publish(folder, scores, [plan(member, ["procedural"], 4, T=T) for T in (0.6, 1.0)])


def test_the_sampling_grid_reads_every_k_from_the_same_samples(tmp_path: Path) -> None:
    write_member(tmp_path / "sft", "sft", 0.5)
    table = table_of(tmp_path, SETTINGS)
    assert table[["temperature", "k"]].to_numpy().tolist() == [[t, k] for t in (0.6, 1.0) for k in (1, 2, 4)]
    questions = EvaluationSummary.load(tmp_path / "sft").scores[0].questions
    values = table[table["temperature"] == 0.6].set_index("k")["value"]
    assert values[1] == pytest.approx(np.mean(list(questions.values())))
    assert values[4] == pytest.approx(np.mean([max(outcomes) for outcomes in questions.values()]))
    table.to_csv(tmp_path / "pass_at_k.csv", index=False)
    pd.testing.assert_frame_equal(table_of(tmp_path / "pass_at_k.csv", SETTINGS), table)
    table.drop(columns="k").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ConfigError, match="lacks the columns k"):
        table_of(tmp_path / "other.csv", SETTINGS)
    rows = grid_of(table).groups["T = 0.6"]
    assert float(rows[0][-1]) == pytest.approx(100 * (values[4] - values[1]), abs=0.06)
    short = grid_of(table.drop(table[(table["temperature"] == 0.6) & (table["k"] == 4)].index))
    assert short.groups["T = 0.6"][0][-2:] == [
        "-",
        "-",
    ]  # a lost sample costs the largest k, and not the page


def test_the_command_writes_a_page_that_holds_every_arm(tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    every = records(0.1) + [
        record(run.arm, run.origin, run.seed, 0.4 + 0.01 * run.seed, clip_high_frac=0.001, clip_low_frac=0.0)
        for run in ablation_runs()
        if (run.origin, run.seed) not in PAIRS
        or run.arm not in {c for contrast in CONTRASTS for c in contrast[:2]}
    ]
    for r in every:
        r.write(tmp_path / "arms" / f"{r.name}.json")
    for member, skill in (("sft", 0.3), ("rl3", 0.6), ("sft_seed_1", 0.3)):
        write_member(tmp_path / "grid" / member, member, skill)
    result = CliRunner().invoke(app, ["ablations", "--run", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "index.html").read_text()
    assert "18 pairs" not in page  # runs of other teachers are no pairs of the main contrasts
    assert all(f"<b>{run.arm}</b>" in page for run in ablation_runs())
    assert page.count("<svg") == 3
    assert "sft_seed_1" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert (
        len(records_in(tmp_path / "arms"))
        == len((tmp_path / "out" / "data" / "endpoints.csv").read_text().splitlines()) - 1
    )


def test_a_report_reads_the_arms_that_its_run_declares(tmp_path: Path) -> None:
    """The ablations put others beside them, and a repeated report must not change."""
    (tmp_path / "arms").mkdir()
    for name in ("roc_paper-main-0", "roc_paper-main-1", "roc_paper-sft_seed_1-0", "grpo_2g-main-0"):
        (tmp_path / "arms" / f"{name}.json").write_text("{}")
    assert len(Run(tmp_path).arm_files()) == 4
    facts = {"config": {"arms": {"grpo_g": 1, "roc_paper": 1}}}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    assert [path.stem for path in Run(tmp_path).arm_files()] == ["roc_paper-main-0"]


def test_a_record_of_another_run_or_of_another_sft_checkpoint_is_refused(tmp_path: Path) -> None:
    """Nothing else ties an arm to a run, so a file from another run must be detected."""
    root = FakeRun(questions=2, k=1, tokens=False, only=("sft",)).write(tmp_path / "run")
    path = root / "arms" / "grpo_g-main-0.json"
    own = ArmRecord.load(path)
    assert own in read_run_arms(Run(root))
    for changes, message in (
        ({"run": "other"}, "is of run other"),
        ({"parent": "0" * 64}, "another SFT checkpoint"),
    ):
        replace(own, **changes).write(path)
        with pytest.raises(ConfigError, match=message):
            read_run_arms(Run(root))


def test_a_curve_is_at_the_mean_cost_of_its_steps_and_before_their_own() -> None:
    """Hand table: a step costs 100 rollouts. The lag that was there put the window of steps 1 to 3 at 300."""
    curve = record("a", "main", 0, 0.6, rollouts=100).curve
    x, y = smoothed(curve, "rollouts")
    assert x.tolist() == pytest.approx([100.0, 200.0, 300.0, 400.0])
    assert y.tolist() == pytest.approx([0.2, 0.3, 0.4, 0.5])


def test_missing_and_broken_records_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "arms").mkdir()
    result = CliRunner().invoke(app, ["ablations", "--run", str(tmp_path), "--out", str(tmp_path / "out")])
    assert (result.exit_code, "no experiment arm is stored" in result.output) == (2, True)
    (tmp_path / "arms" / "x.json").write_text("{}")
    with pytest.raises(ConfigError, match="arm: Field required"):
        records_in(tmp_path / "arms")


def test_every_compared_arm_is_declared_and_every_endpoint_is_measured() -> None:
    """A claim about an arm of another name would never run."""
    compared = [claim.endpoint for claim in read_claims(CLAIMS) if isinstance(claim.endpoint, ArmDifference)]
    assert len(compared) > 5
    assert {arm for e in compared for arm in (e.a, e.b)} <= set(load_arms().arms)
    measured = {
        "accuracy",
        "train_accuracy",
        "tool_error_frac_correct",
        "tool_error_frac_correct_slope",
        *MEANS,
    }
    assert {e.metric for e in compared} | set(ENDPOINTS) <= measured
