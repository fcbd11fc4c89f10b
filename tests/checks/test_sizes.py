from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks import sizes, tree

Checkout = Callable[[dict[str, str]], Path]
LONG_FUNCTION = "def grow():\n" + "    x = 1\n" * 80
LONG_FILE = "x = 1\n" * 501


def exemption(path: str, function: str = "", reason: str = "one table, read as a whole") -> str:
    return f'[[size]]\npath = "{path}"\nfunction = "{function}"\nreason = "{reason}"\n'


def test_short_code_passes(checkout: Checkout) -> None:
    assert sizes.problems(checkout({"a.py": "def f():\n" + "    x = 1\n" * 79})) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", LONG_FUNCTION, "a.py:1: function grow has 81 lines"),
        ("a.py", "async " + LONG_FUNCTION, "a.py:1: function grow has 81 lines"),
        ("a.py", LONG_FILE, "a.py:1: file has 501 lines"),
        ("Snakefile", LONG_FILE, "Snakefile:1: file has 501 lines"),
    ],
)
def test_what_is_too_long_is_named_with_its_place(
    checkout: Checkout, name: str, text: str, message: str
) -> None:
    (found,) = sizes.problems(checkout({name: text}))
    assert found.startswith(message)


def test_an_exemption_lets_exactly_its_function_pass(checkout: Checkout) -> None:
    files = {"a.py": LONG_FUNCTION, "b.py": LONG_FUNCTION, tree.EXEMPTIONS: exemption("a.py", "grow")}
    (found,) = sizes.problems(checkout(files))
    assert found.startswith("b.py")


def test_an_exemption_without_need_is_a_finding(checkout: Checkout) -> None:
    (found,) = sizes.problems(checkout({"a.py": "x = 1\n", tree.EXEMPTIONS: exemption("a.py")}))
    assert "needs no exemption" in found


def test_an_exemption_without_reason_is_refused(checkout: Checkout) -> None:
    root = checkout({"a.py": LONG_FILE, tree.EXEMPTIONS: exemption("a.py", reason=" ")})
    with pytest.raises(ValueError, match="no reason"):
        sizes.problems(root)


def test_data_do_not_belong_in_the_checkout(checkout: Checkout) -> None:
    (found,) = sizes.problems(checkout({"rows.jsonl": "x" * (2**20 + 1)}))
    assert found.startswith("rows.jsonl: 1048577 bytes")


def test_ignored_files_are_not_looked_at(checkout: Checkout) -> None:
    assert sizes.problems(checkout({".gitignore": "made/\n", "made/a.py": LONG_FILE})) == []
