"""Controls: a benchmark answered with its own golds scores 100%; at random it scores at chance."""

from pathlib import Path

import pytest

from evaluation.benchmark_controls import run_controls
from verifier.benchmarks import benchmark


@pytest.mark.parametrize("name", ["aime24", "aime25", "math500", "gpqa_diamond"])
def test_the_oracle_is_always_right_and_random_is_at_chance(name: str, shared_dir: Path) -> None:
    declared = benchmark(name)
    oracle, chance = run_controls(declared, declared.load(shared_dir / "data"))
    assert oracle.num_correct == oracle.num_questions == declared.num_questions
    expected = 0.25 if name == "gpqa_diamond" else 0.02
    slack = 3 * (expected * (1 - expected) / chance.num_questions) ** 0.5
    assert chance.num_correct / chance.num_questions <= expected + slack


def test_golds_as_answers_are_accepted_except_for_the_listed_defects(shared_dir: Path) -> None:
    """Java golds of type long, Array, ArrayList and HashMap need Java source text, which plain rendering is not."""
    bfcl = benchmark("bfcl_v3")
    oracle = run_controls(bfcl, bfcl.load(shared_dir / "data"))[0]
    known = {id for issue in bfcl.known_issues for id in issue.problems}
    java = {id for id, why in oracle.rejected.items() if id.startswith("java_")}
    assert set(oracle.rejected) - java <= known
    assert len(java) == 23
    typed = ("type long", "type Array", "type ArrayList", "type HashMap")
    assert all(any(name in oracle.rejected[id] for name in typed) for id in java)
    assert oracle.num_questions == 3641
