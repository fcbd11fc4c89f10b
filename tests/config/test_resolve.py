"""Reading a configuration: a fault is one line with the key, the value and the allowed values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from config.mapping import keys, merge, read_yaml
from config.mapping import resolve_mapping as check
from config.resolve import DEFAULTS, parse_override, resolve
from records.errors import ConfigError
from tests.config.refusal import refusal


def test_the_defaults_give_every_key_a_value() -> None:
    given = read_yaml(DEFAULTS)
    for key in keys():
        at: Any = given
        for part in key.split("."):
            assert part in at, key
            at = at[part]


# --- one wrong key -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("rl.rl1.step=3", "rl.rl1.steps"),
        ("objective.clip_high=0.3", "objective.clip"),
        ("sft.save_every=3", "runtime.save_every_s"),
        ("rl.rl1.prompts_per_step=3", "objective.prompts_per_step"),
        ("rollout.tool.own=x", "rollout.tool.name"),
        ("rollout.tool.nmae=x", "rollout.tool.name"),
        ("modle.seed=1", "model.seed"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(override: str, nearest: str) -> None:
    line = refusal(override)
    assert override.split("=")[0].split(".")[0] in line
    assert f"nearest known key: {nearest}" in line


@pytest.mark.parametrize(
    ("override", "key", "allowed"),
    [
        ("rl.rl1.steps=many", "rl.rl1.steps = 'many'", "integer"),
        ("rl.rl1.steps='3'", "rl.rl1.steps = '3'", "integer"),
        ("rl.rl1.steps=2.5", "rl.rl1.steps = 2.5", "integer"),
        ("rl.rl1.steps=0", "rl.rl1.steps = 0", "greater than or equal to 1"),
        ("runtime.deterministic=1", "runtime.deterministic = 1", "boolean"),
        ("model.vocab_size=16", "model.vocab_size = 16", "300"),
        ("sft.noise.no_tool=1.5", "sft.noise.no_tool = 1.5", "1"),
        (
            "objective.roc.selection=papre",
            "objective.roc.selection = 'papre'",
            "'paper', 'release', 'random'",
        ),
        ("rollout.keep=some", "rollout.keep = 'some'", "pattern"),
        ("sft.betas=[0.9]", "sft.betas = [0.9]", "2 items"),
        ("objective.optimizer.betas=[0.9, 1.0]", "objective.optimizer.betas.1 = 1.0", "less than 1"),
        ("rollout.temperature=.inf", "rollout.temperature = inf", "finite"),
        ("sft.lr=.nan", "sft.lr = nan", ""),
        ("model=3", "model = 3", "object"),
    ],
)
def test_a_wrong_value_is_reported_with_its_key_and_the_allowed_values(
    override: str, key: str, allowed: str
) -> None:
    line = refusal(override)
    assert line.startswith(f"--set {override}: ")
    assert key in line
    assert allowed in line


def test_a_missing_key_is_named() -> None:
    mapping = read_yaml(DEFAULTS)
    del mapping["rl"]["rl2"]["steps"]
    with pytest.raises(ConfigError, match=r"rl\.rl2\.steps is missing"):
        check(mapping)


def test_several_faults_are_reported_at_once() -> None:
    line = refusal("rl.rl1.steps=0", "sft.sed=1")
    assert "rl.rl1.steps" in line
    assert "sft.sed" in line


# --- combinations that would train wrongly in silence --------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["rl.rl2.max_response=31"], "rl.rl2.max_response = 31 holds no turn"),
        (["eval.max_response=5"], "eval.max_response = 5 holds no turn"),
        (["model.max_positions=200"], "exceed model.max_positions = 200"),
        (["rollout.kv_tokens=100"], "rollout.kv_tokens = 100 holds not one rollout"),
        (["objective.micro_batch_tokens=64"], "objective.micro_batch_tokens = 64 holds not one rollout"),
        (["objective.prompts_per_step=5", "objective.updates_per_step=2"], "does not divide into"),
        (["sandbox.wall_s=5.0", "sandbox.cpu_s=1.0"], "at least 10 x sandbox.cpu_s"),
        (["model.heads=3"], "must be a multiple of model.kv_heads"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_combination_that_would_train_wrongly_is_refused(overrides: list[str], message: str) -> None:
    assert message in refusal(*overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["objective.roc.selection=none", "objective.roc.oversample=1"],
        ["sandbox.wall_s=5.0", "runtime.deterministic=false"],
        ["sandbox.wall_s=5.0", "sandbox.cpu_s=0.5"],
        ["objective.updates_per_step=2"],
        # A pretrained model brings its own sizes.
        ["model.path=some/folder", "model.max_positions=200"],
    ],
    ids=lambda value: value[0],
)
def test_combinations_next_to_a_refused_one_are_accepted(overrides: list[str]) -> None:
    resolve(overrides=overrides)


# --- files and overrides -------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        resolve([tmp_path / "absent.yaml"])
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve([tmp_path])


@pytest.mark.parametrize("content", [b"a: [1", b"\xff\xfe\x00", b"a: b: c"])
def test_a_file_that_is_not_yaml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine\.yaml: is not YAML"):
        resolve([path])


@pytest.mark.parametrize("content", ["- 1\n", "3\n", ""])
def test_a_file_without_sections_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match="must hold a mapping of sections"):
        resolve([path])


@pytest.mark.parametrize("text", ["rl.rl1.steps", "=3", ""])
def test_an_override_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must have the form section\.key=value"):
        parse_override(text)


def test_an_override_whose_value_is_not_yaml_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a YAML value"):
        parse_override("sft.betas=[0.9")


def test_later_files_win_over_earlier_ones_and_overrides_over_files(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("sft: {seed: 1, batch_size: 2, epochs: 3.0}\n")
    second.write_text("sft: {seed: 4, batch_size: 5}\n")
    sft = resolve([first, second], ["sft.seed=6"]).sft
    assert (sft.seed, sft.batch_size, sft.epochs) == (6, 5, 3.0)


def test_mappings_merge_deeply_and_lists_are_replaced() -> None:
    base = {"a": {"b": {"x": 1, "y": 2}, "l": [1, 2]}, "c": 3}
    over = {"a": {"b": {"y": 5}, "l": []}, "c": {"d": 4}}
    assert merge(base, over) == {"a": {"b": {"x": 1, "y": 5}, "l": []}, "c": {"d": 4}}
    assert base == {"a": {"b": {"x": 1, "y": 2}, "l": [1, 2]}, "c": 3}


def test_a_resolved_configuration_cannot_be_changed() -> None:
    config = resolve()
    with pytest.raises(ValueError, match="frozen"):
        config.sft.seed = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert math.isfinite(config.sft.lr)


def test_deeper_sampling_requires_both_settings() -> None:
    plan = "{checkpoint: sft, benchmarks: [procedural], k: 4, temperature: 1.0, limit: null, control: none, deep_k: 8}"
    with pytest.raises(ConfigError, match="belong together"):
        resolve([], ["eval.plans={sft_only: " + plan + "}"])
