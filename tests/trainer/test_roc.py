"""Penalties and selection: hand tables, every (N, G, negatives) up to 40, weights."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.objective import RocSection, RocSelection
from config.resolve import resolve
from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, SelectionReason, Trajectory, Turn
from trainer.selection.roc import (
    Candidate,
    p_err,
    p_format,
    penalty,
    pressure,
    quotas,
    reject_equal,
    select,
)

PAPER = resolve().objective.roc


def a_rule(**changes: Any) -> RocSection:
    return PAPER.model_copy(update=changes)


RANDOM, RELEASE, NONE, PERMUTED = (
    a_rule(selection=RocSelection(name)) for name in ("random", "release", "none", "permuted")
)


def a_turn(call: CallKind = CallKind.NONE, status: Status | None = None, text: str = "") -> Turn:
    result = None if status is None else ToolResult(id="c", status=status)
    return Turn(text=text, start=0, end=1, call=call, result=result)


def a_trajectory(*turns: Turn) -> Trajectory:
    return Trajectory(run="r", checkpoint="c", benchmark="rl1", problem="p", sample=0, turns=list(turns))


def a_group(num_positive: int, num_negative: int, penalties: list[float] | None = None) -> list[Candidate]:
    """Positives first; penalties cycle over 0, .25, .5, 1 unless given."""
    cycle = penalties or [0.0, 0.25, 0.5, 1.0]
    return [
        Candidate(index=i, reward=float(i < num_positive), p_err=cycle[i % len(cycle)])
        for i in range(num_positive + num_negative)
    ]


# --- penalties -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(Status))
def test_p_err_of_one_call_by_status(status: Status) -> None:
    """Statuses of the code count, those of the infrastructure do not; a lost call counts as no tool call."""
    expected = 0.5 if status.is_infrastructure else float(status is not Status.OK)
    assert p_err([a_turn(CallKind.EXECUTED, status), a_turn()]) == expected


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([a_turn()], 0.5),
        ([], 0.5),
        ([a_turn(CallKind.PARSE_ERROR), a_turn()], 1.0),
        ([a_turn(CallKind.UNKNOWN_TOOL), a_turn()], 1.0),
        ([a_turn(CallKind.EXECUTED, Status.OK), a_turn(CallKind.PARSE_ERROR), a_turn()], 0.5),
        ([a_turn(CallKind.EXECUTED, Status.OK)] * 2 + [a_turn(CallKind.EXECUTED, Status.ERROR)], 1 / 3),
        ([a_turn(CallKind.EXECUTED, Status.LOST), a_turn(CallKind.EXECUTED, Status.OK)], 0.0),
        ([a_turn(CallKind.EXECUTED, Status.LOST), a_turn(CallKind.EXECUTED, Status.TIMEOUT)], 1.0),
        ([a_turn(CallKind.EXECUTED, Status.OK), a_turn(CallKind.EXECUTED, None)], 0.0),
    ],
    ids=["none", "no turns", "parse", "unknown", "half", "third", "lost", "lost and timeout", "last not run"],
)
def test_p_err_counts_outcomes_of_calls(turns: list[Turn], expected: float) -> None:
    assert p_err([*turns]) == expected


def test_a_printed_word_error_is_no_error() -> None:
    """The release's substring search counts this as failed; the suite uses the status."""
    result = ToolResult(id="c", status=Status.OK, stdout="error = 1e-9")
    turn = Turn(text="", start=0, end=1, call=CallKind.EXECUTED, result=result)
    assert p_err([turn]) == 0.0


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["no tag"], 1.0),
        (["<answer>1</answer>"], 0.0),
        (["<answer>1</answer><answer>1</answer>"], 1.0),
        (["call", "<answer>1</answer><answer>1</answer>"], 0.5),
        (["call", "call", "call", "<answer>1</answer>" * 2], 0.25),
        (["call", "<answer>1</answer>" * 9], 1.0),
        (["</answer>"], 1.0),
    ],
)
def test_p_format_follows_equation_5_with_turns_counted_in_full(texts: list[str], expected: float) -> None:
    assert p_format([a_turn(text=text) for text in texts]) == expected


# --- selection -------------------------------------------------------------------------------------------


def test_exactly_g_are_kept_for_every_size_up_to_40() -> None:
    """All (2G, G, negatives) and all odd N up to 40: exactly G, both classes present, no candidate twice."""
    for num_rollouts in range(3, 41):
        for G in range(2, num_rollouts):
            if num_rollouts not in (2 * G, 2 * G - 1, 40):
                continue
            for num_negative in range(1, num_rollouts):
                group = a_group(num_rollouts - num_negative, num_negative)
                for rule in (PAPER, RANDOM):
                    selection = select(group, G, rule, Random(num_rollouts * 41 + num_negative))
                    kept = [group[i] for i in selection.kept]
                    assert len(kept) == G
                    assert {c.reward for c in kept} == {0.0, 1.0}
                    assert Counter(selection.reasons) == {
                        SelectionReason.KEPT: G,
                        SelectionReason.NOT_DRAWN: num_rollouts - G,
                    }


def test_quotas_round_to_the_larger_fraction_for_every_size_up_to_40() -> None:
    for num_valid in range(3, 41):
        for G in range(2, num_valid):
            for num_positive in range(num_valid + 1):
                positive, negative = quotas(num_positive, num_valid - num_positive, G, Random(7))
                share = G * num_positive / num_valid
                assert positive + negative == G
                assert 0 <= positive <= num_positive
                assert 0 <= negative <= num_valid - num_positive
                at_least = min(1, num_positive), min(1, num_valid - num_positive)
                assert abs(positive - share) <= 0.5 or (positive, negative) in (
                    (at_least[0], G - at_least[0]),
                    (G - at_least[1], at_least[1]),
                )


def test_a_tie_of_remainders_falls_both_ways_by_the_stream() -> None:
    outcomes = Counter(quotas(3, 3, 3, Random(seed)) for seed in range(200))
    assert set(outcomes) == {(1, 2), (2, 1)}
    assert 60 < outcomes[1, 2] < 140
    assert len({quotas(3, 3, 3, Random(5)) for _ in range(5)}) == 1


@pytest.mark.parametrize("num_valid", [2, 3, 7, 8])
@pytest.mark.parametrize("rule", [PAPER, RANDOM, NONE])
def test_no_more_than_g_valid_keeps_all_of_them(num_valid: int, rule: RocSection) -> None:
    group = [*a_group(1, num_valid - 1), Candidate(index=99, reward=None)]
    selection = select(group, 8, rule, Random(0))
    assert selection.kept == tuple(range(num_valid))
    assert selection.reasons == (*[SelectionReason.KEPT_ALL] * num_valid, SelectionReason.NO_REWARD)


@pytest.mark.parametrize("rule", [PAPER, RANDOM, NONE, RELEASE])
@pytest.mark.parametrize(
    "rewards",
    [[1.0] * 4, [0.0] * 4, [0.35] * 4, [1.0], [1.0, None], [None] * 4, [], [0.5, None, 0.5]],
)
def test_a_group_without_spread_is_rejected_whole(rule: RocSection, rewards: list[float | None]) -> None:
    group = [Candidate(index=i, reward=reward) for i, reward in enumerate(rewards)]
    selection = select(group, 2, rule, Random(0))
    assert selection.kept == ()
    assert selection == reject_equal(group)
    expected = [SelectionReason.NO_REWARD if r is None else SelectionReason.EQUAL_REWARD for r in rewards]
    assert list(selection.reasons) == expected


def test_rollouts_without_reward_do_not_affect_the_others() -> None:
    """B17, B38: they change neither quota nor draw."""
    group = a_group(12, 8)
    lost = [Candidate(index=100 + i, reward=None) for i in range(5)]
    for rule in (PAPER, RANDOM, RELEASE):
        assert select(group + lost, 10, rule, Random(3)).kept == select(group, 10, rule, Random(3)).kept


candidates = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, None, 0.5, -1.0]), st.sampled_from([0.0, 0.3, 1.0])), max_size=40
)


@given(
    candidates,
    st.integers(2, 20),
    st.sampled_from([PAPER, RANDOM, NONE]),
    st.integers(0, 2**32),
    st.randoms(),
)
def test_selection_conserves_and_ignores_the_order(
    rows: list[tuple[float | None, float]], G: int, rule: RocSection, seed: int, shuffler: Random
) -> None:
    """B35: one reason each, `kept` matches the reasons; the order of candidates has no effect; seeds repeat."""
    group = [Candidate(index=i, reward=reward, p_err=penalty) for i, (reward, penalty) in enumerate(rows)]
    selection = select(group, G, rule, Random(seed))
    assert len(selection.reasons) == len(group)
    reason_of = {c.index: reason for c, reason in zip(group, selection.reasons, strict=True)}
    assert [i for i, reason in reason_of.items() if reason.is_kept] == list(selection.kept)
    assert all((reason_of[c.index] is SelectionReason.NO_REWARD) == (c.reward is None) for c in group)
    if rule is not NONE:
        assert len(selection.kept) <= G
    shuffled = list(group)
    shuffler.shuffle(shuffled)
    again = select(shuffled, G, rule, Random(seed))
    assert again.kept == selection.kept
    assert {c.index: r for c, r in zip(shuffled, again.reasons, strict=True)} == reason_of


def sequential_probabilities(weights: list[float], num: int) -> dict[frozenset[int], float]:
    """Exact probability of each set under successive draws from the remainder."""
    sets: dict[frozenset[int], float] = {}
    for order in itertools.permutations(range(len(weights)), num):
        left, probability = sum(weights), 1.0
        for i in order:
            probability *= weights[i] / left
            left -= weights[i]
        sets[frozenset(order)] = sets.get(frozenset(order), 0.0) + probability
    return sets


@pytest.mark.parametrize(
    ("rule", "weights"),
    [
        (a_rule(epsilon=0.1), [1 / 0.1, 1 / 0.35, 1 / 0.6, 1 / 1.1]),
        (RANDOM, [1.0, 1.0, 1.0, 1.0]),
    ],
    ids=["paper", "random"],
)
def test_positives_are_drawn_with_the_stated_weights(rule: RocSection, weights: list[float]) -> None:
    """Chi-square of 4000 seeded draws of 2 of 4 positives against exact sequential probabilities."""
    group = a_group(4, 4)
    rng, num_draws = Random(11), 4000
    counts = Counter(
        frozenset(i for i in select(group, 4, rule, rng).kept if i < 4) for _ in range(num_draws)
    )
    expected = sequential_probabilities(weights, 2)
    assert set(counts) == set(expected)
    chi_square = sum((counts[s] - num_draws * p) ** 2 / (num_draws * p) for s, p in expected.items())
    assert chi_square < 20.5  # 99.9% of chi-square with 5 degrees of freedom


def test_negatives_are_drawn_uniformly_for_any_penalty() -> None:
    """Paper: keep diverse failures; sorting negatives by penalty was a fault of the release."""
    group = a_group(4, 4)
    rng, num_draws = Random(12), 4000
    counts = Counter(i for _ in range(num_draws) for i in select(group, 4, PAPER, rng).kept if i >= 4)
    chi_square = sum((counts[i] - num_draws / 2) ** 2 / (num_draws / 2) for i in range(4, 8))
    assert chi_square < 16.3  # 99.9% with 3 degrees of freedom


def test_permuted_penalties_carry_no_information() -> None:
    rng, rule = Random(13), a_rule(epsilon=0.01, selection=RocSelection.PERMUTED)
    counts = Counter(i for _ in range(4000) for i in select(a_group(4, 4), 4, rule, rng).kept if i < 4)
    assert all(abs(counts[i] / 4000 - 0.5) < 0.04 for i in range(4))


def test_p_total_is_the_sum_of_the_penalties_that_are_named() -> None:
    candidate = Candidate(index=0, reward=1.0, p_err=0.25, p_format=0.5)
    for names, expected in ((["p_err", "p_format"], 0.75), (["p_err"], 0.25), (["p_format"], 0.5), ([], 0.0)):
        assert penalty(candidate, a_rule(penalties=names)) == expected


def test_selection_lowers_the_mean_penalty_of_positives() -> None:
    group = a_group(16, 16)
    selection = select(group, 16, PAPER, Random(1))
    outcome = pressure(group, selection, PAPER)
    assert (outcome.num_before, outcome.num_after) == (16, 8)
    assert outcome.p_total_before == 0.4375
    assert outcome.p_total_after < outcome.p_total_before
    nothing = pressure([], select([], 2, PAPER, Random(1)), PAPER)
    assert math.isnan(nothing.p_total_before)
    assert math.isnan(nothing.p_total_after)


# --- the release -----------------------------------------------------------------------------------------


def test_the_release_keeps_best_positives_and_first_negatives() -> None:
    group = a_group(4, 4, penalties=[1.0, 0.0, 0.5, 0.0])
    assert select(group, 4, RELEASE, Random(0)).kept == (1, 3, 4, 5)
    assert select(group[::-1], 4, RELEASE, Random(9)).kept == (1, 3, 4, 5)


def test_the_release_drops_small_groups_and_keeps_exact_ones() -> None:
    assert set(select(a_group(2, 3), 8, RELEASE, Random(0)).reasons) == {SelectionReason.GROUP_TOO_SMALL}
    assert set(select(a_group(4, 4), 8, RELEASE, Random(0)).reasons) == {SelectionReason.KEPT_ALL}


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        select([Candidate(index=0, reward=bad), Candidate(index=1, reward=0.0)], 2, PAPER, Random(0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 1.1])
def test_a_penalty_outside_its_range_is_refused(bad: float) -> None:
    right = Candidate(index=3, reward=1.0)
    for name, wrong in (("p_err", replace(right, p_err=bad)), ("p_format", replace(right, p_format=bad))):
        group = [wrong, Candidate(index=1, reward=0.0)]
        with pytest.raises(ValueError, match=rf"{name} of rollout 3 is"):
            select(group, 2, PAPER, Random(0))


def test_a_group_of_fewer_than_two_to_train_is_refused() -> None:
    with pytest.raises(ValueError, match="no baseline"):
        select(a_group(2, 2), 1, PAPER, Random(0))


def test_an_index_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="share an index"):
        select([Candidate(index=0, reward=1.0), Candidate(index=0, reward=0.0)], 2, PAPER, Random(0))
