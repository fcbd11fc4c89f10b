"""For each key of the configuration, the rules that `snakemake -n` schedules on a finished run equal a table."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.resolve import keys, merge, resolve
from tests.pipeline.checkout import scheduled
from tests.pipeline.conftest import MicroRun

pytestmark = pytest.mark.slow

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
TABLE: dict[str, dict[str, int]] = {
    "model": BASE,
    "data": DATA,
    "sandbox": CORPUS,
    "rollout": CORPUS,
    "objective": RL1,
    # The arm of micro, grpo_g, sets these two itself.
    "objective.roc.selection": {rule: count for rule, count in RL1.items() if rule != "arm"},
    "objective.roc.oversample": {rule: count for rule, count in RL1.items() if rule != "arm"},
    "sft": SFT,
    "sft.noise": CORPUS,
    "rl.rl1": RL1,
    "rl.rl2": RL2,
    "rl.rl3": RL3,
    "rl.filter": HARD,
    "eval": SCORES | {"arm": 1},
    "eval.plans": {"evaluate": 1, "score": 1, "entropy": 1, "write_tables": 1, **ANALYSIS},
    "arms": {"write_tables": 1, **ANALYSIS},
    "arms.seeds": {"arm": 2, "write_tables": 1, **ANALYSIS},
    "analysis": SCORES,
    "runtime": {},
}
"""Section -> rules to run; the longest section that a key begins with counts."""

VALUES: dict[str, Any] = {
    "model.path": "elsewhere",
    "model.revision": "0123456789abcdef",
    "model.heads": 4,
    "model.head_dim": 34,
    "model.source": None,
    "model.max_positions": 1100,
    "data.families": ["linear"],
    "data.source": "own",
    "data.min_test": 10,
    "sandbox.cpu_s": 0.5,
    "sandbox.preload": ["numpy"],
    "rollout.top_p": None,
    "rollout.keep": "trained",
    "rollout.max_prompt": 330,
    "rollout.tool.own": "my_tool",
    "objective.roc.selection": "random",
    "objective.roc.oversample": 3,
    "objective.reward": None,
    "objective.optimizer.betas": [0.9, 0.99],
    "objective.updates_per_step": 2,
    "sft.betas": [0.9, 0.99],
    "rl.rl1.pool": None,
    "rl.rl2.pool": None,
    "rl.rl1.reset_optimizer": None,
    "arms.names": ["grpo_g"],
    "analysis.confidence": 0.9,
    "eval.plans": {"rl3": {"k": 3}},
    "runtime.run": None,
    "runtime.paths.results": None,
    "runtime.paths.data": "somewhere",
    "runtime.sinks": ["tensorboard"],
    "runtime.preset": "other",
    "runtime.device": "cuda",
}
"""Changed values where flipping, adding one or taking another allowed value will not do. None: changing it is refused
or names another run."""

ALONGSIDE: dict[str, dict[str, Any]] = {
    "model.path": {"model": {"source": "pretrained"}},
    "model.revision": {"model": {"source": "pretrained", "path": "elsewhere"}},
    "rollout.tool.own": {"rollout": {"system": "full"}},
    "objective.head_kernel": {"runtime": {"device": "cuda"}},
    "rl.rl2.warmup_steps": {"rl": {"rl2": {"reset_optimizer": True}}},
    "rl.rl3.reset_optimizer": {"rl": {"rl3": {"warmup_steps": 0}}},
}
"""What a changed key needs beside it, of the same section or of `runtime`, to contradict nothing."""

TOOL = "NAME, DESCRIPTION, PARAMETERS = 'own', 'A tool.', {}\n\n\ndef run():\n    return 1\n"


def test_each_key_schedules_the_rules_of_the_table(micro_run: MicroRun) -> None:
    wrong = []
    for key in keys():
        value = VALUES[key] if key in VALUES else _changed(key)
        if value is None and key != "objective.reward":
            continue
        found = scheduled(_dry_run(micro_run, key, value))
        if found != expected(key):
            wrong.append(f"{key} = {value!r}: {found}, not {expected(key)}")
    assert not wrong, "\n".join(wrong)


def test_the_table_names_every_section() -> None:
    assert {
        key for key in keys() if not any(key.startswith(f"{section}.") or key == section for section in TABLE)
    } == set()


def expected(key: str) -> dict[str, int]:
    """Rules of the longest section that the key lies in."""
    sections = [section for section in TABLE if key == section or key.startswith(f"{section}.")]
    return TABLE[max(sections, key=len)]


def _changed(key: str) -> Any:
    """Another valid value: booleans flip, numbers grow or shrink, names take another allowed one."""
    from config.resolve import DEFAULTS, read_yaml

    value: Any = merge(read_yaml(DEFAULTS), read_yaml(DEFAULTS.with_name("micro.yaml")))
    for part in key.split("."):
        value = value[part]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value > 0 else 0.01
    for other in _alternatives(key, value):
        return other
    raise AssertionError(f"VALUES needs another value for {key} = {value!r}")


def _alternatives(key: str, value: str) -> list[str]:
    """Allowed values of an enumeration other than the present one, found by asking the resolver."""
    from config.resolve import ConfigError

    try:
        resolve([], [f"{key}=no-such-value"])
    except ConfigError as error:
        quoted = [word for number, word in enumerate(str(error).split("'")) if number % 2]
        return [word for word in quoted if word not in (value, "no-such-value")]
    return ["other"]


def _dry_run(run: MicroRun, key: str, value: Any) -> str:
    """`snakemake -n` in a fork of this process, which has everything imported already."""
    nested: Any = value
    for part in reversed(key.split(".")):
        nested = {part: nested}
    nested = merge(nested, ALONGSIDE.get(key, {}))
    nested.setdefault("runtime", {}).setdefault("run", "micro")
    (run.checkout.root / "my_tool.py").write_text(TOOL, encoding="utf-8")
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
