from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks import places, tree

Checkout = Callable[[dict[str, str]], Path]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('DATA = "/home/ann/data"', "absolute path"),
        ("cd /root/suite", "absolute path"),
        ("see `/work`", "absolute path"),
        ("--data=/Users/ann/aime", "absolute path"),
        ("get it from https://pypi.org/simple", "package host"),
        ("pip install --extra-index-url X torch", "package index option"),
        ("torch @ file:///wheels/torch.whl", "file URL"),
    ],
)
def test_a_place_of_one_machine_is_found(checkout: Checkout, line: str, what: str) -> None:
    (found,) = places.problems(checkout({"docs/a.md": f"fine\n{line}\n"}))
    assert found.startswith(f"docs/a.md:2: {what}")


def test_the_path_of_the_checkout_itself_is_found(checkout: Checkout) -> None:
    root = checkout({"a.py": ""})
    (root / "a.py").write_text(f"ROOT = '{root}/results'\n")
    assert any("path of this checkout" in line for line in places.problems(root))


@pytest.mark.parametrize(
    "line",
    [
        "results/work/sft",
        'f"{RUN}/work/eval"',
        "at work/root level",
        "/proc/self/fd",
        "~/work/x",
        "../work/a",
        "/usr/bin/python3",
    ],
)
def test_places_that_every_machine_has_pass(checkout: Checkout, line: str) -> None:
    assert places.problems(checkout({"a.md": line})) == []


def test_binary_files_are_skipped(checkout: Checkout) -> None:
    root = checkout({"a.py": ""})
    (root / "a.png").write_bytes(b"\xff\xfe/home/ann/x")
    assert places.problems(root) == []


def test_an_exempt_file_passes(checkout: Checkout) -> None:
    exempt = '[[place]]\npath = "tests/*"\nreason = "attacks read it"\n'
    files = {"tests/a.py": "/root/.profile", "b.py": "/root/.profile", tree.EXEMPTIONS: exempt}
    (found,) = places.problems(checkout(files))
    assert found.startswith("b.py")
