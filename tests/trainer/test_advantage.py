"""Group-normalised advantages: hand tables, invariants, public faults B1 to B4."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.selection.advantage import advantages, group_advantages, has_spread

rewards = st.lists(st.sampled_from([0.0, 0.1, 0.35, 1 / 3, 0.7, 1.0, -2.5]), min_size=0, max_size=40)


@pytest.mark.parametrize(
    ("rewards_G", "expected_G"),
    [
        ([1.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.5, -1.5]),
        ([1.0, 0.0], [math.sqrt(0.5), -math.sqrt(0.5)]),
        ([0.0, 0.0, 3.0], [-1 / math.sqrt(3), -1 / math.sqrt(3), 2 / math.sqrt(3)]),
    ],
)
def test_hand_computed_groups(rewards_G: list[float], expected_G: list[float]) -> None:
    assert group_advantages(rewards_G) == pytest.approx(expected_G, rel=1e-15)


@pytest.mark.parametrize("reward", [0.35, 0.1, 1 / 3, 0.7, 1e-12, 1e12, 0.0, -0.35])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 16, 33])
def test_a_constant_group_is_exactly_zero_for_any_reward(reward: float, size: int) -> None:
    """B1, B2: no rounding residue over a tiny std, no NaN from n - 1 = 0."""
    assert group_advantages([reward] * size) == [0.0] * size
    assert not has_spread([reward] * size)


def test_rounding_noise_is_not_a_spread() -> None:
    """B1: the tolerance is relative, so neither large nor small rewards cross it by rounding."""
    assert not has_spread([0.1 + 0.2, 0.3, 0.3])
    assert not has_spread([1e9, 1e9 + 1e-3])
    assert has_spread([1e-9, 0.0])
    assert has_spread([1.0, 1.0 + 1e-5])


def test_one_outlier_of_an_almost_constant_group_stays_moderate() -> None:
    """B1: 7 against 1 of non-dyadic rewards; E[x^2] - E[x]^2 in float32 blows this up."""
    advantages_G = group_advantages([0.35] * 7 + [0.3501])
    assert max(abs(a) for a in advantages_G) == pytest.approx(7 / math.sqrt(8), rel=1e-9)


@given(rewards)
def test_equals_a_slow_independent_formula(rewards_G: list[float]) -> None:
    advantages_G = group_advantages(rewards_G)
    if len(set(rewards_G)) < 2:
        assert advantages_G == [0.0] * len(rewards_G)
        return
    mean, std = statistics.mean(rewards_G), statistics.stdev(rewards_G)
    assert advantages_G == pytest.approx([(r - mean) / std for r in rewards_G], rel=1e-12, abs=1e-12)


@given(rewards)
def test_a_group_sums_to_zero_and_has_unit_variance(rewards_G: list[float]) -> None:
    """B3: a second normalisation, or one over the batch, would break either."""
    advantages_G = group_advantages(rewards_G)
    assert abs(math.fsum(advantages_G)) < 1e-12
    if any(advantages_G):
        assert statistics.variance(advantages_G) == pytest.approx(1.0, rel=1e-12)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 1.0, 0.35])), max_size=40), st.randoms()
)
def test_rows_keep_their_advantage_under_any_order(rows: list[tuple[str, float]], rng: random.Random) -> None:
    """B4: grouping is by id, not by position."""
    groups_N, rewards_N = [g for g, _ in rows], [r for _, r in rows]
    straight = advantages(rewards_N, groups_N)
    order = list(range(len(rows)))
    rng.shuffle(order)
    shuffled = advantages([rewards_N[i] for i in order], [groups_N[i] for i in order])
    assert shuffled == [straight[i] for i in order]


def test_groups_do_not_touch_each_other() -> None:
    interleaved = advantages([1.0, 100.0, 0.0, 300.0, 1.0], ["a", "b", "a", "b", "a"])
    assert [interleaved[i] for i in (0, 2, 4)] == group_advantages([1.0, 0.0, 1.0])
    assert [interleaved[i] for i in (1, 3)] == group_advantages([100.0, 300.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused_with_its_problem(bad: float) -> None:
    with pytest.raises(ValueError, match=r"problem 'b': reward 1 of the group is .* must be finite"):
        advantages([1.0, 0.0, bad], ["a", "b", "b"])


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rewards but 1 group ids"):
        advantages([1.0, 0.0], ["a"])
