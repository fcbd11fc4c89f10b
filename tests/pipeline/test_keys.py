"""For each section of the configuration, the rules that `snakemake -n` schedules on a finished run equal a table."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.mapping import keys
from tests.pipeline.checkout import scheduled
from tests.pipeline.conftest import MicroRun

REPORT = {"report": 1, "verify": 1, "gate": 1, "reproduce": 1}
ANALYSIS = {"claims_verdicts": 1, "draw_figures": 1, **REPORT}
RL3 = {"rl3": 1, "evaluate": 1, "score": 1, "entropy": 1, "write_tables": 1, **ANALYSIS}
HARD = RL3 | {"hard": 1}
RL2 = HARD | {"rl2": 1, "evaluate_late": 1}
RL1 = RL2 | {"rl1": 1, "evaluate_late": 2, "arm": 1, "arm_of_main": 1}
SFT = RL1 | {"sft": 1, "evaluate": 2, "score": 2}
BASE = SFT | {"base": 1, "evaluate_late": 3}
CORPUS = BASE | {"corpus": 1}
DATA = CORPUS | {"data": 1}
SCORES = {
    "evaluate": 2,
    "evaluate_late": 3,
    "score": 2,
    "entropy": 1,
    "write_tables": 1,
    "arm_of_main": 1,
    **ANALYSIS,
}
TABLE: list[tuple[str, Any, dict[str, int]]] = [
    ("model.layers", 3, BASE),
    ("data.num_dev", 21, DATA),
    ("sandbox.cpu_s", 0.5, CORPUS),
    ("rollout.max_prompt", 330, CORPUS),
    ("objective.clip", [0.1, 0.28], RL1),
    # The arm of micro, grpo_g, sets these two itself.
    ("objective.roc.selection", "random", {rule: count for rule, count in RL1.items() if rule != "arm"}),
    ("objective.roc.oversample", 3, {rule: count for rule, count in RL1.items() if rule != "arm"}),
    ("sft.betas", [0.9, 0.99], SFT),
    ("sft.noise.no_tool", 0.5, CORPUS),
    ("rl.rl1.steps", 4, RL1),
    ("rl.rl2.steps", 4, RL2),
    ("rl.rl3.steps", 4, RL3),
    ("rl.filter.rollouts", 3, HARD),
    ("eval.max_response", 100, SCORES | {"arm": 1}),
    ("eval.plans.rl3.k", 3, {"evaluate": 1, "score": 1, "entropy": 1, "write_tables": 1, **ANALYSIS}),
    ("arms.roc_paper", None, {"write_tables": 1, **ANALYSIS}),
    ("arms.grpo_g", 2, {"arm": 1, "write_tables": 1, **ANALYSIS}),
    ("analysis.confidence", 0.9, SCORES),
    ("runtime.sinks", ["tensorboard"], {}),
]
"""Key, another value, rules to run. A rule reads whole sections, so one key represents all of its section."""


@pytest.mark.parametrize(("key", "value", "rules"), TABLE, ids=[key for key, _, _ in TABLE])
def test_a_changed_key_schedules_the_rules_that_read_its_section(
    key: str, value: Any, rules: dict[str, int], micro_run: MicroRun
) -> None:
    assert scheduled(_dry_run(micro_run, key, value)) == rules


def test_the_table_names_every_section() -> None:
    assert {key.split(".")[0] for key in keys()} == {key.split(".")[0] for key, _, _ in TABLE}


def _dry_run(run: MicroRun, key: str, value: Any) -> str:
    """`snakemake -n` in a fork of this process, which has everything imported already."""
    nested: Any = value
    for part in reversed(key.split(".")):
        nested = {part: nested}
    nested.setdefault("runtime", {}).setdefault("run", "micro")
    config = run.checkout.root / "changed.yaml"
    config.write_text(yaml.safe_dump(nested), encoding="utf-8")
    output = run.checkout.root / "dry.txt"
    child = multiprocessing.get_context("fork").Process(
        target=_child, args=(run.checkout.root, config, output)
    )
    child.start()
    child.join(120)
    return output.read_text(encoding="utf-8")


def _child(root: Path, config: Path, output: Path) -> None:
    import snakemake.cli

    os.chdir(root)
    sys.path.insert(0, str(root))
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    try:
        snakemake.cli.main(["reproduce", "-n", "--configfile", "config/micro.yaml", str(config)])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
