"""Names that become paths, and names of what other packages define."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.names import RESERVED_RUNS, benchmark_names, scheduler_names
from config.resolve import resolve
from records.errors import ConfigError
from records.evaluation import POOLED, RINGS
from trainer.scheduling.policies import ALL as POLICIES
from verifier.benchmarks import NAMES


def test_names_match_those_that_the_packages_declare() -> None:
    assert benchmark_names() == (POOLED, *NAMES)
    assert set(RINGS) < set(NAMES)
    assert scheduler_names() == tuple(policy.name for policy in POLICIES)


def test_every_tracked_results_folder_is_reserved(project_root: Path) -> None:
    tracked = {path.name for path in (project_root / "results").iterdir() if path.name in RESERVED_RUNS}
    assert tracked == set(RESERVED_RUNS)


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "",
        "a/b",
        "/tmp/x",
        "../up",
        "a\\b",
        ".hidden",
        "-x",
        "a b",
        "a\nb",
        "a\n",
        "\u00e9",
        "x" * 101,
        "~",
    ],
)
def test_a_run_or_plan_name_that_is_not_a_folder_name_is_refused(name: str) -> None:
    quoted = '"' + name.replace("\\", "\\\\").replace("\n", "\\n") + '"'
    with pytest.raises(ConfigError, match=r"(?s)runtime\.run = .*is not the name of a folder"):
        resolve([], [f"runtime.run={quoted}"])
    plan = "{checkpoint: sft, benchmarks: [aime24], k: 1, temperature: 0.3, limit: null, control: none}"
    with pytest.raises(ConfigError, match=r"(?s)eval\.plans.*is not the name of a folder"):
        resolve([], [f"eval.plans={{{quoted}: {plan}}}"])


@pytest.mark.parametrize("name", ["reference", "baselines", "Reference"])
def test_a_run_cannot_take_the_folder_of_published_numbers(name: str) -> None:
    with pytest.raises(ConfigError, match="is the folder of published numbers"):
        resolve([], [f"runtime.run={name}"])


@pytest.mark.parametrize("name", ["a", "2024-11-05", "v1.2_b", "x" * 100])
def test_ordinary_run_names_are_accepted(name: str) -> None:
    assert resolve([], [f"runtime.run={name}"]).runtime.run == name


@pytest.mark.parametrize("key", ["model.path", "runtime.paths.results", "runtime.paths.data", "data.source"])
def test_an_empty_path_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = ''"):
        resolve([], [f"{key}=''"])
