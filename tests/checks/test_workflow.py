from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks import tree, workflow

Checkout = Callable[[dict[str, str]], Path]
NO_LOG = 'rule a:\n    output:\n        "x"\n    shell:\n        "touch {output}"\n'
GRANTED = [{"title": "Specify .*", "reason": "one environment"}]


@pytest.mark.slow
def test_a_rule_that_the_linter_objects_to_is_named(checkout: Checkout) -> None:
    granted = '[[lint]]\ntitle = "Specify .*"\nreason = "one environment"\n'
    found = workflow.problems(checkout({"Snakefile": NO_LOG, tree.EXEMPTIONS: granted}))
    assert len(found) == 1
    assert found[0].startswith("rule a (line 1")
    assert found[0].endswith("No log directive defined")


@pytest.mark.slow
def test_a_workflow_that_cannot_be_read_is_a_finding(checkout: Checkout) -> None:
    assert workflow.problems(checkout({"Snakefile": "rule a\n    output:\n"}))


def test_an_exemption_lets_its_title_pass_and_nothing_else() -> None:
    lints = [("rule a", "Specify a container"), ("rule b", "No log directive defined")]
    assert workflow.judge(lints, GRANTED) == ["rule b: No log directive defined"]


def test_an_exemption_without_need_is_a_finding() -> None:
    (found,) = workflow.judge([], GRANTED)
    assert "needs no exemption" in found
