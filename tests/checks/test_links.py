from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks import links

Checkout = Callable[[dict[str, str]], Path]
PAGES = {"docs/a.md": "# Title\n\n## How it works\n", "LICENSE": ""}


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("docs/missing.md", "no such file"),
        ("docs/a.md#nowhere", "no such heading"),
        ("#nowhere", "no such heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(checkout: Checkout, target: str, why: str) -> None:
    (found,) = links.problems(checkout({**PAGES, "README.md": f"# Top\n\nsee [it]({target}).\n"}))
    assert found == f"README.md:3: link {target!r}: {why}"


@pytest.mark.parametrize(
    "target",
    ["docs/a.md", "docs/a.md#how-it-works", "#top", "LICENSE", "docs", "https://arxiv.org/abs/2508.20722"],
)
def test_a_link_that_leads_somewhere_passes(checkout: Checkout, target: str) -> None:
    assert links.problems(checkout({**PAGES, "README.md": f"# Top\n\nsee [it]({target}).\n"})) == []


def test_code_is_no_link(checkout: Checkout) -> None:
    text = "`a[0](x)`\n\n```\n[a](missing.md)\n```\n"
    assert links.problems(checkout({"README.md": text})) == []
