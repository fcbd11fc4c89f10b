"""`snakemake -n` schedules the expected jobs for every preset and for the profiles that can be tried here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from config.arms import ablation_runs, load_arms
from records.stages import RL_STAGES
from tests.pipeline.checkout import Checkout, scheduled

ONCE = (
    *(
        "sandbox_check",
        "sandbox_bench",
        "scheduler_bench",
        "data",
        "corpus",
        "base",
        "sft",
        "rl1",
        "rl2",
        "hard",
    ),
    *(
        "rl3",
        "entropy",
        "claims_verdicts",
        "draw_figures",
        "write_tables",
        "report",
        "verify",
        "gate",
        "reproduce",
    ),
)
REPRODUCE = dict.fromkeys(ONCE, 1) | {"evaluate": 2, "evaluate_late": 3, "score": 2}
ARMS = {"tiny": {"arm": 9, "arm_of_main": 1}, "micro": {"arm": 1, "arm_of_main": 1}}
"""Preset -> jobs of its experiment arms; the others have none."""
RELEASED = {"sandbox_check": 1, "data": 1, "corpus": 1, "base": 1, "evaluate_late": 1, "score": 1}
"""What the head of config/released.yaml asks for."""


@pytest.fixture(scope="module")
def checkout(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout.copy(project_root, tmp_path_factory.mktemp("presets"))


def dry_run(checkout: Checkout, *arguments: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--cores", "2", *arguments],
        cwd=checkout.root,
        env=os.environ | {"PYTHONPATH": str(checkout.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return scheduled(done.stdout + done.stderr)


@pytest.mark.parametrize("preset", ["tiny", "micro", "smol", "small", "paper"])
def test_a_preset_schedules_the_whole_pipeline(preset: str, checkout: Checkout) -> None:
    assert dry_run(checkout, "reproduce", "--configfile", f"config/{preset}.yaml") == REPRODUCE | ARMS.get(
        preset, {}
    )


def test_the_ablations_run_every_arm_once(checkout: Checkout) -> None:
    """The main run's stage 1 is one of them; other SFT checkpoints and the main run's stages are made once."""
    jobs = dry_run(checkout, "ablations")
    assert jobs["arm"] + jobs["arm_of_main"] == len(ablation_runs())
    assert (jobs["origin"], jobs["ablation_page"]) == (len(load_arms().origins), 1)
    assert (jobs["sampling_grid"], jobs["rl3"]) == (len(load_arms().sampling_grid.members), 1)


def test_the_released_preset_trains_nothing_with_its_documented_command(checkout: Checkout) -> None:
    head = (checkout.root / "config" / "released.yaml").read_text(encoding="utf-8").split("# Needs")[0]
    targets = re.findall(r"results/released/\S+", head)
    assert len(targets) == 2
    assert dry_run(checkout, *targets, "--configfile", "config/released.yaml") == RELEASED


def test_the_profile_small_selects_its_preset(checkout: Checkout) -> None:
    assert dry_run(checkout, "--workflow-profile", "profiles/small", "reproduce") == REPRODUCE
    profile = yaml.safe_load((checkout.root / "profiles" / "small" / "config.yaml").read_text())
    assert profile["configfile"] == "config/small.yaml"


@pytest.mark.parametrize("profile", ["small", "slurm"])
def test_a_profile_names_only_rules_and_presets_that_exist(profile: str, project_root: Path) -> None:
    """The slurm profile cannot run without its plugin; this test checks what does not need it."""
    settings = yaml.safe_load((project_root / "profiles" / profile / "config.yaml").read_text())
    rules = {
        name
        for path in project_root.glob("*/rules.smk")
        for name in re.findall(
            r"^(?:use )?rule (?:\w+ as )?(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    # The rules of the RL stages are made in a loop over the table of stages.
    assert set(settings["set-resources"]) <= rules | set(RL_STAGES)
    # A rule made from another one inherits nothing that a profile gives by name.
    given = settings["set-resources"]
    assert given["evaluate"] == given["evaluate_late"] == given["sampling_grid"]
    assert (project_root / settings["configfile"]).is_file()
    assert settings["restart-times"] == 3
