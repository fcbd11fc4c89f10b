"""tests/BUGS.md, the faults and their tests must match; `python -m tests.mutants` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from tests.mutants.__main__ import Mutant, all_mutants, main
from tests.mutants.edits import Edit

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


def test_a_row_is_caught_exactly_if_it_has_a_fault_and_names_its_tests(project_root: Path) -> None:
    mutants = {mutant.bug: mutant for mutant in all_mutants()}
    for fault, here, why in table(project_root):
        assert here in ("caught", "cannot arise", "not built yet")
        assert (here == "caught") == (fault in mutants), fault
        if here == "caught":
            assert all(f"`{test}`" in why for test in mutants[fault].tests), fault
        else:
            assert len(why) >= 4, fault


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.bug)
def test_the_tests_a_fault_names_exist(mutant: Mutant, project_root: Path) -> None:
    for test in mutant.tests:
        path, _, name = test.partition("::")
        text = (project_root / path).read_text()
        assert f"def {name.rpartition('.')[2]}(" in text, test


def test_every_fault_fits_the_tree(project_root: Path) -> None:
    """A fault that no longer fits guards nothing: rewrite it for the changed code."""
    for mutant in all_mutants():
        for edit in mutant.edits:
            source = (project_root / edit.file).read_text()
            assert edit.applied(source) != source, mutant.bug


SOURCE = """
def other():
    return 1


class Loop:
    def admit(self):
        if True:
            return 1
"""


def edit(**changes: str) -> Edit:
    return Edit(
        **{"file": "a.py", "function": "Loop.admit", "old": "return 1", "new": "x = 2\nreturn x"} | changes
    )


def test_an_edit_stays_in_its_function_and_uses_its_indentation() -> None:
    assert edit().applied(SOURCE) == SOURCE.replace(
        "            return 1", "            x = 2\n            return x"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": "Loop.gone"}, "has no Loop.gone"),
        ({"old": "return 3"}, "holds `return 3` 0 times"),
        ({"function": ""}, "the file holds `return 1` 2 times"),
    ],
)
def test_an_edit_that_does_not_fit_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edit(**changes).applied(SOURCE)


def test_an_entry_without_tests_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(
        '[[fault]]\nbug = "B01"\nwhat = "other"\n[[fault.edit]]\nfile = "a.py"\nfunction = ""\nold = "1"\nnew = "2"\n'
    )
    with pytest.raises(ValueError, match="B01: 'tests'"):
        all_mutants(path)


def test_an_unknown_fault_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_status:
        main(["B99"])
    assert exit_status.value.exit_code == 2
    assert "no fault B99; there are B01" in capsys.readouterr().err
