"""docs/paper_map.md names only existing code and covers every section, equation, table and figure of the paper."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PAGE = "docs/paper_map.md"
REFERENCE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+)(?::([\w.]+))?`")
PARTS = {
    "Section": [
        "2.1",
        "2.2.1",
        "2.2.2",
        "2.2.3",
        "3.1",
        "3.2",
        "4.1",
        "4.2",
        "4.3",
        "4.3.1",
        *("5.1", "5.2", "5.3", "5.4"),
    ],
    "Table": [str(number) for number in range(1, 7)],
    "Fig.": [str(number) for number in range(1, 12)],
}


def names_of(path: Path) -> set[str]:
    """Functions, classes and methods that a Python file defines at its top level or in a class."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def missing(root: Path, text: str) -> list[str]:
    """References of a page to a file or name that does not exist; paths are relative to the root or to tests/."""
    found = []
    for file, name in sorted(set(REFERENCE.findall(text))):
        path = next((path for path in (root / file, root / "tests" / file) if path.is_file()), None)
        if path is None:
            found.append(f"{file}: no such file")
        elif name and name not in names_of(path):
            found.append(f"{file}: defines no {name}")
    return found


def rows(text: str) -> list[list[str]]:
    """Cells of every table row but heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| paper")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def page(project_root: Path) -> str:
    return (project_root / PAGE).read_text(encoding="utf-8")


def test_every_file_function_and_test_named_in_the_map_exists(project_root: Path, page: str) -> None:
    assert missing(project_root, page) == []


@pytest.mark.parametrize(
    "bad",
    ["`trainer/selection/roc.py:no_such`", "`trainer/no_such.py`", "`trainer/stages/rl.py:RlStage.no_such`"],
)
def test_a_name_that_does_not_exist_is_found(project_root: Path, bad: str) -> None:
    assert len(missing(project_root, bad)) == 1


def test_every_row_names_code_and_a_test_or_is_marked_not_built(page: str) -> None:
    wrong = []
    for place, _, code, test in rows(page):
        named = REFERENCE.search(code) and any("/test_" in file for file, _ in REFERENCE.findall(test))
        if not named and not code.startswith("not built: "):
            wrong.append(place)
    assert wrong == []


def test_no_section_table_or_figure_of_the_paper_is_left_out(page: str) -> None:
    places = " ; ".join(cells[0] for cells in rows(page))
    for word, numbers in PARTS.items():
        for number in numbers:
            named = rf"{re.escape(word)} (?:[\d.]+, )*{re.escape(number)}(?![\d.])"
            assert re.search(named, places), f"{word} {number}"


def test_no_equation_of_the_paper_is_left_out(page: str) -> None:
    covered: set[int] = set()
    for first, last in re.findall(r"Eq\. (\d)(?: to (\d))?", " ; ".join(cells[0] for cells in rows(page))):
        covered |= set(range(int(first), int(last or first) + 1))
    assert covered == set(range(1, 8))
