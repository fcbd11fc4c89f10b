"""Snakemake's call becomes a configuration: the same reading as everywhere, and a line on the settings in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.resolve import DEFAULTS, resolve
from config.workflow import Workflow, _resolved, precedence, replaced_file
from records.errors import ConfigError

MICRO = DEFAULTS.with_name("micro.yaml")


def test_files_and_values_are_read_as_by_every_command(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("objective: {optimizer: {lr: 1e-6}}\nrollout: {tool: {state: off}}\nruntime: {run: no}\n")
    found = _resolved([MICRO, mine], {"arms": {"grpo_g": 2}})
    assert found == resolve([MICRO, mine], ["arms.grpo_g=2"])
    assert (found.runtime.run, found.rollout.tool.state) == ("no", "off")


def test_values_of_the_command_line_win_over_files(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("runtime: {run: file}\n")
    assert _resolved([mine], {"runtime": {"run": "given"}}).runtime.run == "given"
    assert precedence([mine], {"runtime": {}}).endswith(
        "mine.yaml < --config runtime (the last to give a key wins)"
    )


def test_a_fault_is_reported_with_its_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("rl: {rl1: {steps: 0}}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: rl\.rl1\.steps = 0"):
        _resolved([mine], {})


@pytest.mark.parametrize("folder", ["my results", "{run}", "a;b", "$HOME/x", "it's"])
def test_a_folder_name_with_special_characters_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"runtime\.paths\.results = .* take another folder"):
        _resolved([], {"runtime": {"paths": {"results": folder}}})


@pytest.mark.parametrize("words", [["--workflow-profile", "PROFILE"], ["--profile=PROFILE"]])
def test_an_ignored_file_of_a_profile_is_reported(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("configfile: config/small.yaml\n")
    arguments = ["snakemake", *(word.replace("PROFILE", str(tmp_path)) for word in words)]
    line = replaced_file(arguments, [Path("my.yaml")])
    assert line is not None
    assert "--configfile config/small.yaml my.yaml" in line
    assert replaced_file(arguments, [Path("config/small.yaml"), Path("my.yaml")]) is None
    assert replaced_file(["snakemake", "-n"], []) is None


def test_a_run_folder_of_an_earlier_layout_is_set_aside_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = resolve([], [f"runtime.paths.results={tmp_path}"])
    workflow, folder = Workflow(config), config.runtime.folder
    folder.checkpoint("sft").mkdir(parents=True)
    folder.facts.write_text('{"run": "tiny"}')
    with pytest.raises(SystemExit) as ended:
        workflow.begin([], lambda _config, _rules: None, is_local=False, is_verbose=True)
    aside = tmp_path / ".old" / "tiny-earlier"
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"error: {folder.root}: is of an earlier layout and is set aside as {aside}; run the same command again\n"
    )
    assert (aside / "checkpoints" / "sft").is_dir()
    workflow.write_start()
    assert folder.set_earlier_aside() is None
    assert not folder.checkpoint("sft").exists()
