"""Sections: a command gets what it declares, as one string that is equal exactly when the values are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from config.command import read_sections
from config.model import json_schema
from config.resolve import ConfigError, resolve
from config.sections import load_sections, sections_json, view_of
from records.digest import canonical, digest


def test_reading_a_section_that_was_not_declared_is_an_attribute_error() -> None:
    view = view_of(resolve(), ["rollout", "rl.rl1", "sft.noise"])
    assert view.rl.rl1.steps == resolve().rl.rl1.steps
    assert view.sft.noise == resolve().sft.noise
    for path in ("objective", "rl.rl2", "rl.filter", "sft.lr"):
        parent, _, name = path.rpartition(".")
        with pytest.raises(AttributeError):
            getattr(getattr(view, parent) if parent else view, name)


def test_the_string_depends_on_the_declared_values_alone() -> None:
    names = ["objective", "rl.rl3"]
    straight = sections_json(resolve(), names)
    assert straight == sections_json(resolve(overrides=["sft.seed=99", "runtime.run=other"]), names)
    assert straight != sections_json(resolve(overrides=["rl.rl3.steps=5"]), names)
    assert straight == canonical(json.loads(straight))


def test_a_view_read_back_holds_the_same_values() -> None:
    config = resolve()
    view = view_of(config, ["model", "objective", "eval"])
    assert (view.model, view.objective, view.eval) == (config.model, config.objective, config.eval)


def test_canonical_json_is_sorted_blank_free_and_ascii() -> None:
    assert canonical({"b": {"z": 1, "a": 2.5}, "a": "\u00e9"}) == '{"a":"\\u00e9","b":{"a":2.5,"z":1}}'
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    with pytest.raises(ValueError, match="Out of range"):
        canonical(float("nan"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ("{}", "this command reads"),
        ('{"rl.rl1": {}}', "this command reads"),
    ],
)
def test_sections_of_another_command_are_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_sections(text, ["sft"])


def test_a_wrong_value_in_a_section_is_named() -> None:
    given = json.loads(sections_json(resolve(), ["rl.rl1"]))
    given["rl.rl1"]["steps"] = 0
    with pytest.raises(ConfigError, match=r"rl\.rl1\.steps"):
        load_sections(json.dumps(given), ["rl.rl1"])


def test_files_and_sections_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        read_sections(["sft"], sections="{}", runtime=None, config=[], overrides=["sft.seed=1"])


def test_a_command_reads_its_runtime_from_the_file_of_the_run(tmp_path: Path) -> None:
    config = resolve(overrides=["runtime.run=mine"])
    path = tmp_path / "runtime.json"
    path.write_text(sections_json(config, ["runtime"]))
    text = sections_json(config, ["sft"])
    view, runtime = read_sections(["sft"], sections=text, runtime=str(path), config=[], overrides=[])
    assert (view.sft, runtime.run) == (config.sft, "mine")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_sections(["sft"], sections=text, runtime=str(tmp_path / "none"), config=[], overrides=[])


def test_the_kept_schema_is_the_models(project_root: Path) -> None:
    kept = project_root / "config" / "schema.json"
    assert json.loads(kept.read_text()) == json.loads(json.dumps(json_schema()))


def test_reading_the_configuration_loads_no_torch(project_root: Path) -> None:
    code = "import sys, config.model, config.command, config.workflow; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project_root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
