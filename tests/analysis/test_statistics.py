"""Estimates, intervals and tests on numbers whose answer is known another way."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from analysis.claims.multiplicity import holm, holm_confidence
from records import statistics as s


@given(st.integers(1, 9), st.data())
@settings(max_examples=60, deadline=None)
def test_pass_at_k_equals_counting_every_subset(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    samples = [1] * c + [0] * (n - c)
    subsets = list(combinations(samples, k))
    assert s.pass_at_k(n, c, k) == pytest.approx(np.mean([any(x) for x in subsets]))
    assert s.pass_hat_k(n, c, k) == pytest.approx(np.mean([all(x) for x in subsets]))


def test_pass_at_k_is_refused_when_samples_are_too_few() -> None:
    with pytest.raises(ValueError, match="needs at least 16 samples"):
        s.pass_at_k_by_question({"a": [1] * 15}, 16)


def test_pass_at_1_is_avg() -> None:
    outcomes = {"a": [1, 0, 0], "b": [1, 1, 0]}
    assert np.mean(list(s.pass_at_k_by_question(outcomes, 1).values())) == pytest.approx(s.avg_at_k(outcomes))


def test_wilson_equals_statsmodels_in_every_bit() -> None:
    for num in (1, 4, 30, 60, 500):
        for num_correct in np.arange(0.25, num, 0.25).tolist():
            interval = s.wilson(num_correct, num)
            expected = proportion_confint(num_correct, num, alpha=1 - 0.95, method="wilson")
            assert (interval.low, interval.high) == expected


def test_wilson_gives_the_published_aime_interval() -> None:
    interval = s.wilson(24, 30)
    assert (round(interval.low, 3), round(interval.high, 3)) == (0.627, 0.905)


def test_more_samples_of_the_same_questions_leave_an_interval() -> None:
    few = {str(i): [i % 2] * 2 for i in range(30)}
    many = {str(i): [i % 2] * 64 for i in range(30)}
    width = [x.high - x.low for x in (s.score_interval(few, seed=0), s.score_interval(many, seed=0))]
    assert width[0] == pytest.approx(width[1])


def test_a_bootstrap_interval_has_about_its_nominal_coverage() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(100):
        p = rng.beta(2, 2, 60)
        outcomes = {str(i): list(rng.binomial(1, p[i], 4)) for i in range(60)}
        interval = s.cluster_bootstrap(outcomes, seed=trial, resamples=500)
        covered += interval.low <= 0.5 <= interval.high
    assert covered >= 88


def test_a_wider_cluster_widens_the_interval() -> None:
    outcomes = {str(i): [1] if i < 20 else [0] for i in range(40)}
    alone = s.cluster_bootstrap(outcomes, seed=0)
    grouped = s.cluster_bootstrap(outcomes, seed=0, clusters={str(i): i // 5 for i in range(40)})
    assert grouped.method == "bootstrap"
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


@pytest.mark.parametrize(
    "outcomes",
    [
        {"only": [1, 0, 0, 0]},
        {"only": [1, 1, 1, 1]},
        {str(i): [1, 0] for i in range(30)},
        {str(i): [1, 0, 0] for i in range(7)},
        {"a": [0.1] * 3, "b": [0.1]},
    ],
    ids=["one question", "one question, all right", "equal halves", "equal thirds", "equal up to rounding"],
)
def test_one_question_and_equal_values_have_an_interval_with_width(outcomes: dict[str, list[float]]) -> None:
    interval = s.score_interval(outcomes, seed=0)
    assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0
    assert interval.high - interval.low > 0.7 / len(outcomes) ** 0.5
    assert interval.num == len(outcomes)


def test_one_cluster_of_many_questions_is_one_unit() -> None:
    outcomes = {str(i): [i % 2] for i in range(40)}
    interval = s.cluster_bootstrap(outcomes, seed=0, clusters=dict.fromkeys(outcomes, "one source"))
    assert (interval.value, interval.num) == (0.5, 40)
    assert interval.high - interval.low > 0.7


def test_the_interval_of_equal_values_has_its_nominal_coverage() -> None:
    """Three questions of one difficulty p, four samples each: the bootstrap misses p in a third of the draws."""
    rng = np.random.default_rng(1)
    for p in (0.1, 0.5, 0.9):
        drawn = [{str(q): list(rng.binomial(1, p, 4)) for q in range(3)} for _ in range(60)]
        found = [s.score_interval(outcomes, seed=0) for outcomes in drawn]
        assert np.mean([interval.low <= p <= interval.high for interval in found]) >= 0.95


def test_equal_values_show_no_spread_to_a_t_interval() -> None:
    assert s.t_interval([0.3, 0.1 + 0.2, 0.3]).low == -np.inf
    assert np.isfinite(s.t_interval([0.3, 0.30001]).low)


def test_a_vote_does_not_depend_on_the_order_of_the_samples() -> None:
    answers, correct = ["5", "5", "7", "7", "8", None], [1, 0, 0, 0, 0, 1]
    orders = [np.random.default_rng(seed).permutation(6) for seed in range(20)]
    found = {s.cons_at_k([answers[i] for i in order], [correct[i] for i in order]) for order in orders}
    assert found == {0.25}


def test_results_repeat_for_a_seed_and_differ_between_seeds() -> None:
    first, again, other = (
        s.bootstrap_means([0.1, 0.7, 0.4], seed=x, resamples=9).tolist() for x in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_question_order_does_not_matter() -> None:
    a = {str(i): [i % 2] for i in range(20)}
    b = {str(i): [(i // 2) % 2] for i in range(20)}
    shuffled = dict(reversed(list(a.items())))
    assert s.paired_difference(a, b, seed=3) == s.paired_difference(shuffled, b, seed=3)


def test_paired_difference_uses_only_shared_questions() -> None:
    d = s.paired_difference({"a": [0], "x": [1]}, {"a": [1], "y": [0]}, seed=0)
    assert (d.num_questions, d.value) == (1, 1.0)


def test_paired_difference_refuses_disjoint_questions() -> None:
    with pytest.raises(ValueError, match="share no question"):
        s.paired_difference({"a": [1]}, {"b": [1]}, seed=0)


def test_one_shared_question_never_makes_a_difference_certain() -> None:
    d = s.paired_difference({"a": [0]}, {"a": [1]}, seed=0)
    assert d.p == 1.0
    assert d.high - d.low > 1.0


def test_mcnemar_is_reported_only_for_single_binary_samples() -> None:
    a, b = {str(i): [0] for i in range(6)}, {str(i): [1] for i in range(6)}
    assert s.paired_difference(a, b, seed=0).p_mcnemar == 0.03125
    double = {q: v * 2 for q, v in b.items()}
    assert s.paired_difference(a, double, seed=0).p_mcnemar is None


def test_drawn_sign_flips_agree_with_the_enumerated_ones() -> None:
    d = np.array([0.5, 1, -0.25, 0.5, 1, 0.25, -0.5, 1, 0.5, 0.25, 1, 0.5])
    exact = s.sign_flip_p(d, seed=0)
    padded = np.concatenate([d, [1e-9]])
    assert s.sign_flip_p(padded, seed=0, resamples=20_000) == pytest.approx(exact, abs=0.005)


def test_permutation_p_is_near_uniform_without_an_effect() -> None:
    rng = np.random.default_rng(1)
    p = [s.sign_flip_p(rng.normal(size=30), seed=i, resamples=400) for i in range(200)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.09


def test_rerun_noise_is_zero_when_samples_of_a_question_agree() -> None:
    outcomes = {"a": [1, 1], "b": [0, 0]}
    assert s.rerun_se(outcomes) == 0.0
    assert s.question_se(outcomes) == pytest.approx(0.5)


def test_rerun_noise_needs_two_samples() -> None:
    with pytest.raises(ValueError, match="raise k"):
        s.rerun_se({"a": [1]})


@pytest.mark.parametrize("outcomes", [{}, {"a": []}])
def test_empty_input_is_refused(outcomes: dict[str, list[int]]) -> None:
    with pytest.raises(ValueError, match="question"):
        s.avg_at_k(outcomes)


def test_a_vote_counts_answers_not_verdicts() -> None:
    assert s.cons_at_k(["5", "5", "7", "8", "9"], [1, 1, 0, 0, 0]) == 1.0


def test_holm_levels_reject_exactly_what_holm_rejects() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        p = list(rng.uniform(0, 0.1, 5))
        levels = holm_confidence(p)
        rejected = [x <= 1 - level + 1e-15 for x, level in zip(p, levels, strict=True)]
        assert rejected == [x <= 0.05 for x in holm(p)]
