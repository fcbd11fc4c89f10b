"""The problems of a step: a pure function of seed, pool and step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.problem import Problem
from records.seeds import derive_seed
from trainer.problems.order import problems_of_step


def pool(num: int) -> list[Problem]:
    return [Problem(id=f"p{i:02d}", prompt="", answer="0") for i in range(num)]


def ids(step: int, count: int, num: int, seed: int = 0) -> list[str]:
    return [problem.id for problem in problems_of_step(pool(num), step, count, seed)]


def test_a_step_depends_on_seed_step_and_members_but_not_on_pool_order() -> None:
    assert ids(3, 4, 9) == [p.id for p in problems_of_step(pool(9)[::-1], 3, 4, 0)]
    assert ids(3, 4, 9) != ids(3, 4, 9, seed=1)
    assert ids(3, 4, 9) != ids(2, 4, 9)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 30))
def test_no_step_holds_a_problem_twice(num: int, count: int, step: int) -> None:
    if count <= num:
        assert len(set(ids(step, count, num))) == count
    else:
        with pytest.raises(ValueError, match="needs a pool"):
            ids(step, count, num)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 3))
def test_every_epoch_is_a_permutation_even_if_steps_do_not_divide_the_pool(
    num: int, count: int, seed: int
) -> None:
    if count > num:
        return
    num_epochs = 3
    steps = [ids(step, count, num, seed) for step in range(1, -(-num_epochs * num // count) + 1)]
    visited = [name for step in steps for name in step]
    for epoch in range(num_epochs):
        assert sorted(visited[epoch * num : (epoch + 1) * num]) == [p.id for p in pool(num)]
    assert all(len(set(step)) == count for step in steps)


def test_epochs_have_different_orders() -> None:
    steps = [ids(step, 3, 12) for step in range(1, 9)]
    assert steps[:4] != steps[4:]


def test_seeds_differ_by_part_order_and_type() -> None:
    parts = [(7, "a", 1), (7, "a", 2), (7, 1, "a"), (7, "a", "1"), (7, "a1"), ("7", "a", 1), (8, "a", 1)]
    seeds = {derive_seed(*each) for each in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
