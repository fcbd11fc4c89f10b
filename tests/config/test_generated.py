"""Generated files follow the model; `python -m config` shows, writes and checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from config import reference
from config.__main__ import app
from config.mapping import keys, read_yaml
from config.model import Config
from config.resolve import DEFAULTS, resolve

MICRO = DEFAULTS.with_name("micro.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("generated", reference.GENERATED, ids=lambda item: item.path.name)
def test_a_generated_file_matches_the_model(generated: reference.Generated) -> None:
    assert generated.path.read_text(encoding="utf-8") == generated.text(), f"run `{generated.command}`"


def test_the_reference_has_a_row_for_every_key() -> None:
    page = reference.docs_text()
    tables = [part.split("\n", 1) for part in page.split("\n## ")[1:]]
    sections = {name: table for names, table in tables for name in names.split(", ")}
    for key in keys():
        section, _, name = key.rpartition(".")
        assert f"| `{name}` |" in sections[section] if section else key in sections, key


def test_every_preset_file_is_in_the_reference() -> None:
    assert set(reference.PRESETS) == {path.stem for path in DEFAULTS.parent.glob("*.yaml")}


def test_every_row_of_the_reference_has_as_many_cells_as_its_head() -> None:
    rows = [line.replace("\\|", "") for line in reference.docs_text().splitlines() if line.startswith("|")]
    widths = {row.count("|") for row in rows}
    assert widths == {5}


def test_the_shown_configuration_resolves_to_itself(tmp_path: Path) -> None:
    shown = run("show", "--config", str(MICRO), "--set", "rl.rl1.steps=5")
    assert shown.exit_code == 0, shown.stderr
    path = tmp_path / "shown.yaml"
    path.write_text(shown.stdout, encoding="utf-8")
    expected = resolve([MICRO], ["rl.rl1.steps=5"])
    assert resolve([path]) == expected
    assert set(yaml.safe_load(shown.stdout)) == set(Config.model_fields)


def test_json_holds_the_same_as_yaml() -> None:
    shown = run("show", "--json")
    assert json.loads(shown.stdout) == resolve().model_dump(mode="json")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rl.rl1.stpes=3", "nearest known key: rl.rl1.steps"),
        ("rollout.temperature=0", "rollout.temperature"),
        ("rl.rl1.steps=many", "rl.rl1.steps"),
        ("nonsense", "section.key=value"),
    ],
)
def test_a_wrong_override_is_one_line_and_status_2(override: str, words: str) -> None:
    done = run("show", "--set", override)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_check_passes_on_this_checkout() -> None:
    done = run("check")
    assert done.exit_code == 0, done.stderr


def test_drift_and_a_preset_that_does_not_resolve_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = tmp_path / "schema.json"
    stale.write_text("{}\n", encoding="utf-8")
    monkeypatch.setattr(reference, "GENERATED", (reference.Generated(stale, "the command", lambda: "x"),))
    monkeypatch.setattr(reference, "DEFAULTS", tmp_path / "tiny.yaml")
    (tmp_path / "bad.yaml").write_text("rl: {rl1: {stpes: 3}}\n", encoding="utf-8")
    found = reference.faults()
    assert len(found) == 2
    assert "nearest known key: rl.rl1.steps" in found[0]
    assert "the command" in found[1]


def test_generated_files_can_be_written_elsewhere(tmp_path: Path) -> None:
    for command, name in (("schema", "schema.json"), ("docs", "configuration.md")):
        done = run(command, "--out", str(tmp_path / name))
        assert done.exit_code == 0, done.stderr
    assert json.loads((tmp_path / "schema.json").read_text())["title"] == "Config"
    assert (tmp_path / "configuration.md").read_text() == reference.docs_text()


def test_an_output_that_cannot_be_written_is_one_line_and_status_2(
    tmp_path: Path, project_root: Path
) -> None:
    done = run("docs", "--out", str(tmp_path / "no" / "folder.md"))
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_presets_change_values_and_hold_none_that_are_the_default() -> None:
    """A value repeated from tiny hides the purpose of a preset; plans are whole, so they may repeat."""
    default = dict(reference.leaves(read_yaml(DEFAULTS)))
    idle = [
        f"{name}: {key}"
        for name in reference.PRESETS[1:]
        for key, value in reference.leaves(read_yaml(DEFAULTS.with_name(f"{name}.yaml")))
        if not key.startswith("eval.plans.") and default.get(key, ...) == value and not key.startswith(STATED)
    ]
    assert idle == []


STATED = ("sandbox.memory_mib", "objective.group_size", "rl.filter.rollouts")
"""Keys that a preset states for the reader though tiny has the same value."""
