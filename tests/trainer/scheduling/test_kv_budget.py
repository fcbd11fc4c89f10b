"""The key-value budget policy never exceeds the capacity and serves every rollout."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policy import Arrival, Assignment


def arrival(session: str, context: int = 10, max_new: int = 90) -> Arrival:
    return Arrival(session=session, group="g", context_tokens=context, max_new=max_new)


def test_an_engine_gets_no_more_rollouts_than_fit_at_full_length():
    policy = KvBudgetPolicy([299])
    assert policy.on_arrive(arrival("a"), 0.0) == [Assignment(session="a", engine=0)]
    assert policy.on_arrive(arrival("b"), 0.0) == [Assignment(session="b", engine=0)]
    assert policy.on_arrive(arrival("c"), 0.0) == []
    assert policy.on_finish("a", 1.0) == [Assignment(session="c", engine=0)]


def test_rollouts_go_to_the_engine_with_most_room_and_ties_to_the_first():
    policy = KvBudgetPolicy([300, 400, 300])
    engines = [policy.on_arrive(arrival(name), 0.0)[0].engine for name in "abcd"]
    assert engines == [1, 0, 1, 2]


def test_a_returning_turn_goes_to_its_engine_before_the_queue():
    policy = KvBudgetPolicy([100, 100])
    policy.on_arrive(arrival("a"), 0.0)
    policy.on_arrive(arrival("b"), 0.0)
    policy.on_arrive(arrival("waits"), 0.0)
    assert policy.on_turn_end("b", 1.0) == []
    assert policy.on_arrive(arrival("b", 50, 50), 2.0) == [Assignment(session="b", engine=1)]


def test_the_head_of_the_queue_is_not_overtaken_by_a_smaller_rollout():
    policy = KvBudgetPolicy([100])
    policy.on_arrive(arrival("a", 10, 50), 0.0)
    assert policy.on_arrive(arrival("large", 10, 90), 0.0) == []
    assert policy.on_arrive(arrival("small", 10, 10), 0.0) == []
    assert [one.session for one in policy.on_finish("a", 1.0)] == ["large"]


def test_a_rollout_that_ends_while_it_waits_leaves_the_queue():
    policy = KvBudgetPolicy([100])
    for name in "abc":
        policy.on_arrive(arrival(name), 0.0)
    assert policy.on_finish("b", 1.0) == []
    assert [one.session for one in policy.on_finish("a", 2.0)] == ["c"]


def test_the_running_quantile_reserves_what_ended_rollouts_needed():
    policy = KvBudgetPolicy([1000], quantile=0.5)
    for i in range(16):
        policy.on_arrive(arrival(f"s{i}"), 0.0)
        policy.on_finish(f"s{i}", 1.0, context_tokens=10 + i)
    assigned = [policy.on_arrive(arrival(f"t{i}"), 2.0) for i in range(60)]
    # 8 tokens beyond the prompt of 10: 55 rollouts of 18 tokens in 1000.
    assert sum(map(len, assigned)) == 1000 // 18


def test_a_rollout_larger_than_every_engine_is_refused():
    with pytest.raises(ValueError, match="may need 100"):
        KvBudgetPolicy([99]).on_arrive(arrival("a"), 0.0)


@pytest.mark.parametrize(
    "bad", [{"capacities": []}, {"capacities": [0]}, {"capacities": [9], "quantile": 0.0}]
)
def test_settings_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match=r"capacities|quantile"):
        KvBudgetPolicy(**bad)


ROLLOUTS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 60), st.integers(1, 4)), min_size=1, max_size=40
)


@given(
    capacities=st.lists(st.integers(100, 150), min_size=1, max_size=4),
    rollouts=ROLLOUTS,
    seed=st.integers(0, 1000),
    quantile=st.sampled_from([None, 0.8]),
)
def test_every_arrival_is_assigned_once_in_order_within_the_budget(capacities, rollouts, seed, quantile):
    policy = KvBudgetPolicy(capacities, quantile=quantile)
    waiting: list[str] = []
    engine_of: dict[str, int] = {}
    turns_left = {f"s{i}": rollout[2] for i, rollout in enumerate(rollouts)}
    size = {f"s{i}": rollout[0] + rollout[1] for i, rollout in enumerate(rollouts)}
    active: list[str] = []

    def take(assignments: list[Assignment]) -> None:
        for one in assignments:
            assert one.session == waiting.pop(0)
            engine_of[one.session] = one.engine
            active.append(one.session)
        if quantile is None:
            for engine, capacity in enumerate(capacities):
                assert sum(size[s] for s in active if engine_of[s] == engine) <= capacity

    for i, (context, max_new, _) in enumerate(rollouts):
        waiting.append(f"s{i}")
        take(policy.on_arrive(arrival(f"s{i}", context, max_new), 0.0))
    rng = random.Random(seed)
    for t in itertools.count():
        if not active:
            break
        session = rng.choice(active)
        turns_left[session] -= 1
        if turns_left[session]:
            take(policy.on_turn_end(session, float(t)))
            back = policy.on_arrive(arrival(session, size[session] - 1, 1), float(t))
            assert back == [Assignment(session=session, engine=engine_of[session])]
        else:
            active.remove(session)
            take(policy.on_finish(session, float(t)))
    assert not active
    assert not waiting
    assert len(engine_of) == len(rollouts)
