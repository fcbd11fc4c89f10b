"""tests/BUGS.md, the patches and the tests they name belong together; `python -m tests.mutants` runs them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import typer

from tests.mutants.__main__ import Mutant, all_mutants, apply, main, read

NUM_FAULTS = 46


def table(root: Path) -> list[tuple[str, str, str]]:
    """(fault, what holds here, test or reason) of each row."""
    rows = []
    for line in (root / "tests" / "BUGS.md").read_text().splitlines():
        if re.match(r"\| B\d\d \|", line):
            fault, _, here, why = (cell.strip() for cell in line.strip("|").split(" | "))
            rows.append((fault, here, why))
    return rows


def test_every_fault_has_one_row_in_order(project_root: Path) -> None:
    assert [fault for fault, _, _ in table(project_root)] == [f"B{n:02d}" for n in range(1, NUM_FAULTS + 1)]


def test_a_row_says_caught_exactly_if_there_is_a_patch_and_names_its_tests(project_root: Path) -> None:
    mutants = {mutant.bug: mutant for mutant in all_mutants()}
    for fault, here, why in table(project_root):
        assert here in ("caught", "cannot arise", "not built yet")
        assert (here == "caught") == (fault in mutants), fault
        if here == "caught":
            assert all(f"`{test}`" in why for test in mutants[fault].tests), fault
        else:
            assert len(why) >= 4, fault


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.bug)
def test_the_tests_a_patch_names_exist(mutant: Mutant, project_root: Path) -> None:
    for test in mutant.tests:
        path, _, name = test.partition("::")
        text = (project_root / path).read_text()
        assert f"def {name.rpartition('.')[2]}(" in text, test


def test_every_patch_fits_the_tree(project_root: Path, tmp_path: Path) -> None:
    """A patch that no longer fits guards nothing: write it anew for the changed code."""
    for package in ("config", "sandbox", "verifier", "trainer"):
        shutil.copytree(
            project_root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    complaints = {mutant.bug: apply(mutant.path, tmp_path, "--check") for mutant in all_mutants()}
    assert {bug: complaint for bug, complaint in complaints.items() if complaint} == {}


def test_a_patch_without_head_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "B01.patch"
    path.write_text("B02: other\ntest: x\n\n")
    with pytest.raises(ValueError, match="begin with 'B01"):
        read(path)


def test_an_unknown_fault_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_status:
        main(["B99"])
    assert exit_status.value.exit_code == 2
    assert "no patch for B99; there are B01" in capsys.readouterr().err
