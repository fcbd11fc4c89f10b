"""The arms file: every arm fits its preset; an unknown or impossible one is refused with the remedy."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from analysis.claims.claims import MIN_CHECKPOINTS
from config.arms import (
    MAIN,
    ArmRun,
    ArmsFile,
    ablation_runs,
    config_of_arm,
    config_of_origin,
    configured,
    load_arms,
    view_of_arm,
)
from config.objective import RocSelection
from config.resolve import resolve
from records.errors import ConfigError


def test_every_arm_of_the_ablations_fits_the_tiny_preset() -> None:
    changed = [config_of_arm(resolve(), run) for run in ablation_runs()]
    assert len(changed) == len(ablation_runs()) > 100


def test_an_arm_changes_only_its_declared_keys() -> None:
    config = resolve()
    changed = config_of_arm(config, ArmRun("grpo_2g", MAIN, 0))
    assert changed.objective.group_size == 2 * config.objective.group_size
    assert changed.objective.roc.selection is RocSelection.NONE
    same = changed.model_dump()
    same["objective"] = config.model_dump()["objective"]
    assert same == config.model_dump()


def test_the_paper_arm_with_seed_0_is_the_main_run() -> None:
    assert config_of_arm(resolve(), ArmRun("roc_paper", MAIN, 0)) == resolve()


def test_arms_of_one_seed_share_it_and_others_do_not() -> None:
    seeds = {run: config_of_arm(resolve(), run).rollout.seed for run in configured(resolve())}
    assert len(set(seeds.values())) == resolve().arms["grpo_g"]
    assert all(seeds[run] == seeds[ArmRun("grpo_g", MAIN, run.seed)] for run in seeds)


def test_every_arm_of_the_design_is_declared_once_in_the_grid() -> None:
    checkpoints = [MAIN, *(name for name in load_arms().origins if name.startswith("sft_seed_"))]
    assert len(checkpoints) >= MIN_CHECKPOINTS  # fewer would leave every claim about training inconclusive
    orders = {config_of_origin(resolve(), name).rollout.seed for name in checkpoints}
    assert len(orders) == len(checkpoints)
    grid = {run for run in ablation_runs() if run.origin in checkpoints}
    for arm in ("grpo_g", "grpo_2g", "random_2g_to_g", "grpo_2x_prompts", "roc_paper", "roc_release"):
        assert {(run.origin, run.seed) for run in grid if run.arm == arm} >= {
            (c, s) for c in checkpoints for s in (0, 1)
        }


def test_every_declared_arm_and_origin_is_run() -> None:
    runs = ablation_runs()
    assert {run.arm for run in runs} == set(load_arms().arms)
    assert {run.origin for run in runs} == {MAIN, *load_arms().origins}


def test_an_arm_reads_its_stages_and_the_plan_that_tests_it() -> None:
    staged, single = (view_of_arm(resolve(), ArmRun(arm, MAIN, 0)) for arm in ("staged", "grpo_g"))
    assert (list(staged.stages), staged.filter) == (["rl1", "rl2", "rl3"], resolve().rl.filter)
    assert (list(single.stages), single.filter) == (["rl1"], None)
    assert list(single.eval.plans) == ["rl1"]
    with pytest.raises(ConfigError, match=r"eval\.plans\.rl1"):
        view_of_arm(resolve([], ["eval.plans.rl1=null", "arms=null"]), ArmRun("grpo_g", MAIN, 0))


def test_an_origin_makes_a_corpus_only_if_the_teacher_changes() -> None:
    assert load_arms().origins["teacher_errors_40"].teaches_anew
    assert not load_arms().origins["sft_seed_1"].teaches_anew
    assert config_of_origin(resolve(), MAIN) == resolve()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda: config_of_arm(resolve(), ArmRun("roc_papr", MAIN, 0)), "did you mean roc_paper"),
        (lambda: config_of_origin(resolve(), "sft_seed_9"), "did you mean sft_seed_"),
        (lambda: configured(resolve([], ["arms.grpo=1"])), "did you mean grpo_g"),
        (
            lambda: config_of_arm(resolve([], ["objective.prompts_per_step=31"]), ArmRun("updates_8", MAIN, 0)),
            "arm updates_8: objective.prompts_per_step = 31 does not divide",
        ),
    ],
)  # fmt: skip
def test_an_impossible_arm_is_refused_with_the_remedy(read: object, words: str) -> None:
    assert callable(read)
    with pytest.raises(ConfigError, match=words):
        read()


def test_every_member_of_the_sampling_grid_has_a_plan_per_temperature() -> None:
    grid = load_arms().sampling_grid
    for member in grid.members:
        plans = list(grid.plans_of(member).values())
        assert [plan.temperature for plan in plans] == grid.temperatures
        assert {plan.checkpoint for plan in plans} == {"sft" if member in grid.origins else member}


def test_an_unknown_origin_in_the_sampling_grid_is_refused() -> None:
    loaded = load_arms().model_dump()
    loaded["sampling_grid"]["origins"] = ["sft_seed_7"]
    with pytest.raises((ConfigError, ValidationError), match="sft_seed_7"):
        ArmsFile.model_validate(loaded)
