"""Each preset resolves; the paper preset holds the paper's numbers, transcribed here a second time."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from config.reference import PRESETS
from config.resolve import DEFAULTS, resolve
from records.stages import BY_NAME

PAPER: dict[str, Any] = {
    # Section 4.1 and 5.1: non-reasoning SFT
    "sft.epochs": 3.0,
    "sft.lr": 5e-6,
    "sft.batch_size": 128,
    "sft.warmup_frac": 0.04,
    "sft.schedule": "cosine",
    "data.num_sft": 117_000 + 48_000 + 30_000 + 27_000,
    # Section 2.2: objective and selection
    "objective.clip": [0.2, 0.28],
    "objective.roc.selection": "paper",
    "objective.roc.oversample": 2,
    "objective.normalisation": "global_tokens",
    # Section 4.2: problems
    "data.num_train": 42_000,
    # Section 4.3 and 5.1: RL
    "objective.group_size": 16,
    "objective.prompts_per_step": 512,
    "objective.optimizer.lr": 1e-6,
    "objective.optimizer.warmup_steps": 20,
    "rollout.temperature": 1.0,
    "rollout.tool.name": "execute_python_code_with_standard_io",
    "rollout.tool.state": "stateless",
    # Section 4.3: the filter before stage 3
    "rl.filter.rollouts": 8,
    "rl.filter.problems": 42_000,
    # Section 5.1: evaluation
    "eval.max_response": 30 * 1024,
    "eval.max_turns": 30,
    # Section 5.4: entropy
    "analysis.top_entropy_frac": 0.2,
    "analysis.num_trajectories": 64,
}
"""What the paper prints."""

STAGES = {
    # steps, longest response, T, filtered, new optimizer
    "rl1": (300, 8 * 1024, 10, False, True),
    "rl2": (85, 12 * 1024, 10, False, False),
    "rl3": (125, 12 * 1024, 15, True, True),
}
"""Table 2 and sections 4.3 and 5.1; 85 and 125 lead to the steps 385 and 510 that the paper names."""

RELEASE: dict[str, Any] = {
    "rollout.max_prompt": 2048,
    "rollout.tool.response_chars": 256,
    "objective.optimizer.betas": [0.9, 0.999],
    "objective.optimizer.weight_decay": 0.01,
    "objective.optimizer.grad_clip": 1.0,
    "objective.micro_batch_tokens": 20480,
    "objective.updates_per_step": 1,
    "sandbox.cpu_s": 4.0,
}
"""Where the paper is silent, the release's scripts and defaults."""


def value(preset: str, key: str) -> Any:
    found: Any = resolve([DEFAULTS.with_name(f"{preset}.yaml")]).model_dump(mode="json")
    for part in key.split("."):
        found = found[part]
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_resolves_and_holds_its_own_name(name: str) -> None:
    runtime = resolve([DEFAULTS.with_name(f"{name}.yaml")]).runtime
    assert (runtime.preset, runtime.run) == (name, name)


@pytest.mark.parametrize(("key", "expected"), [*PAPER.items(), *RELEASE.items()])
def test_the_paper_preset_holds_the_number_of_the_source(key: str, expected: Any) -> None:
    assert value("paper", key) == expected


@pytest.mark.parametrize("stage", STAGES)
def test_the_paper_preset_has_the_stages_of_table_2(stage: str) -> None:
    section = value("paper", f"rl.{stage}")
    declared = BY_NAME[stage]
    found = (*(section[k] for k in ("steps", "max_response", "max_turns")),)
    assert (*found, declared.is_filtered, declared.new_optimizer) == STAGES[stage]


def test_the_stages_of_the_paper_preset_end_at_steps_300_385_and_510() -> None:
    ends, total = [], 0
    for stage in STAGES:
        total += value("paper", f"rl.{stage}.steps")
        ends.append(total)
    assert ends == [300, 385, 510]


@pytest.mark.parametrize(
    ("preset", "checkpoints"), [("paper", {"sft", "rl1", "rl2", "rl3"}), ("released", {"base"})]
)
def test_published_maths_and_gpqa_are_sampled_16_times_at_temperature_0_6(
    preset: str, checkpoints: set[str]
) -> None:
    plans = value(preset, "eval.plans").values()
    maths = [p for p in plans if "aime24" in p["benchmarks"] and p["checkpoint"] in checkpoints]
    assert {p["checkpoint"] for p in maths} == checkpoints
    assert {(p["k"], p["temperature"], p["limit"]) for p in maths} == {(16, 0.6, None)}


def test_bfcl_and_ifeval_of_the_paper_preset_are_greedy() -> None:
    plans = [p for p in value("paper", "eval.plans").values() if {"bfcl_v3", "ifeval"} & set(p["benchmarks"])]
    assert {p["checkpoint"] for p in plans} == {"sft", "rl3"}
    assert {p["temperature"] for p in plans} == {0.0}


def test_every_benchmark_that_a_preset_names_exists() -> None:
    from verifier.benchmarks import NAMES

    named = {
        (preset, benchmark)
        for preset in PRESETS
        for plan in value(preset, "eval.plans").values()
        for benchmark in plan["benchmarks"]
    }
    assert {(preset, name) for preset, name in named if name not in (*NAMES, "procedural")} == set()


@pytest.mark.parametrize("name", PRESETS[2:])
def test_the_head_of_a_large_preset_states_needs_cost_runs_and_refusals(name: str) -> None:
    head = DEFAULTS.with_name(f"{name}.yaml").read_text(encoding="utf-8").split("\n\nmodel:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    for word in ("# Needs: ", "# Cost: ", "# Run by ", "# Today: "):
        assert f"\n{word}" in head, word


def test_a_resolved_preset_survives_yaml_and_json() -> None:
    for name in PRESETS:
        resolved = resolve([DEFAULTS.with_name(f"{name}.yaml")])
        dumped = resolved.model_dump(mode="json")
        assert yaml.safe_load(yaml.safe_dump(dumped)) == json.loads(json.dumps(dumped)) == dumped
