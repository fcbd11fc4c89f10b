"""A command receives what its view declares, as one string that is equal exactly when the values are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from config import commands
from config.arms import MAIN, ArmRun, view_of_arm
from config.commands import ARM, COMMANDS, CORPUS, EVALUATE, ORIGIN, RL, SFT, Command
from config.model import json_schema
from config.options import Source
from config.resolve import resolve
from records.digest import canonical, digest
from records.errors import ConfigError


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_view_holds_the_sections_of_its_command_and_no_other(command: Command[Any]) -> None:
    config = resolve()
    view = view_of_arm(config, ArmRun("staged", MAIN, 0)) if command is ARM else command.of(config)
    assert command.read(view.to_json()) == view
    for name in {*type(config).model_fields, "lr"} - set(command.keys):
        with pytest.raises(AttributeError):
            getattr(view, name)


def test_a_view_is_frozen() -> None:
    view = RL["rl1"].of(resolve())
    with pytest.raises(ValidationError):
        view.stage = resolve().rl.stage("rl2")  # pyright: ignore[reportAttributeAccessIssue]


def test_each_stage_reads_its_own_section() -> None:
    config = resolve()
    assert [RL[name].of(config).stage for name in RL] == [section for _, section in config.rl.named()]


def test_the_string_depends_on_the_values_of_the_view_alone() -> None:
    straight = RL["rl3"].of(resolve()).to_json()
    assert straight == RL["rl3"].of(resolve(overrides=["sft.seed=99", "runtime.run=other"])).to_json()
    assert straight != RL["rl3"].of(resolve(overrides=["rl.rl3.steps=5"])).to_json()
    assert straight == canonical(json.loads(straight))


def test_a_view_can_be_made_from_a_view_with_its_sections() -> None:
    config = resolve()
    assert CORPUS.of(ORIGIN.of(config)) == CORPUS.of(config)
    assert commands.CHAT.of(EVALUATE.of(config)) == commands.CHAT.of(config)


def test_canonical_json_is_sorted_blank_free_and_ascii() -> None:
    assert canonical({"b": {"z": 1, "a": 2.5}, "a": "\u00e9"}) == '{"a":"\\u00e9","b":{"a":2.5,"z":1}}'
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    with pytest.raises(ValueError, match="Out of range"):
        canonical(float("nan"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Invalid JSON"),
        ("[1]", "an object"),
        ("{}", "rollout: Field required"),
        (EVALUATE.of(resolve()).to_json(), "sft: Field required"),
    ],
)
def test_the_sections_of_another_command_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"--sections of sft: .*{words}"):
        SFT.read(text)


def test_a_wrong_value_in_a_section_is_named() -> None:
    given = RL["rl1"].of(resolve()).record
    given["stage"]["steps"] = 0
    with pytest.raises(ConfigError, match=r"of rl1: stage\.steps: Input should be greater"):
        RL["rl1"].read(json.dumps(given))


def test_files_and_sections_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Source(sections="{}", overrides=["sft.seed=1"]).read(SFT)


def test_a_command_reads_its_runtime_from_the_file_of_the_run(tmp_path: Path) -> None:
    config = resolve(overrides=["runtime.run=mine"])
    path = tmp_path / "runtime.json"
    path.write_text(config.runtime.model_dump_json())
    text = SFT.of(config).to_json()
    view, runtime = Source(sections=text, runtime=path).read(SFT)
    assert (view.sft, runtime.run) == (config.sft, "mine")
    with pytest.raises(ConfigError, match="cannot be read"):
        Source(sections=text, runtime=tmp_path / "none").read(SFT)


def test_the_stored_schema_matches_the_model(project_root: Path) -> None:
    kept = project_root / "config" / "schema.json"
    assert json.loads(kept.read_text()) == json.loads(json.dumps(json_schema()))


def test_reading_the_configuration_loads_no_torch(project_root: Path) -> None:
    code = "import sys, config.options, config.workflow; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project_root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
