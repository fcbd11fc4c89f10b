"""`RunFolder` is the one place that holds where something of a run lies."""

from __future__ import annotations

import re
from pathlib import Path

from records.run_folder import RunFolder

PACKAGES = ("analysis", "config", "evaluation", "records", "sandbox", "trainer", "verifier")
BY_HAND = re.compile(
    r"\.root / f?[\"']"
    r"|[\"'/](eval|score|metrics|checkpoints|bench|build|arms|grid|origins|trajectories)/[{*<]"
)
"""Below the root of a run."""
IN_A_RULE = re.compile(r"\{RUN\b|\bRUN\.root /")


def test_no_rule_and_no_module_builds_a_path_of_a_run_by_hand(project_root: Path) -> None:
    modules = [path for name in PACKAGES for path in (project_root / name).rglob("*.py")]
    rules = [project_root / "Snakefile", *project_root.glob("*/rules.smk")]
    own = project_root / "records" / "run_folder.py"
    found = [
        f"{path.relative_to(project_root)}:{number}: {line.strip()}"
        for path in [*rules, *modules]
        if path != own
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BY_HAND.search(line) or (path in rules and IN_A_RULE.search(line))
    ]
    assert found == []


def test_a_pattern_finds_what_lies_in_the_folder_in_order_of_names(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name in ("b", "a"):
        folder.summary(name).parent.mkdir(parents=True)
        folder.summary(name).write_text("{}")
    (folder.evaluation("c")).mkdir()
    assert folder.found(folder.summary("*")) == [folder.summary("a"), folder.summary("b")]
    assert folder.found(folder.bench("*")) == []
