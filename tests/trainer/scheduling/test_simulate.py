"""The simulator conserves tokens and rollouts, and agrees with a reference that steps token by token."""

from __future__ import annotations

from collections import deque
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.scheduling.fixed_cap import FixedCapPolicy
from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policies import ALL
from trainer.scheduling.policies.sticky import StickyPolicy
from trainer.scheduling.policy import Assignment
from trainer.scheduling.simulation.clock import SimulatedClock
from trainer.scheduling.simulation.simulate import Cluster, Simulation, lower_bound_s, simulate
from trainer.scheduling.simulation.simulated_engine import SimulatedEngine, StepCost
from trainer.scheduling.simulation.workload import RolloutWork, TurnWork, Workload, synthetic

COST = StepCost(overhead_s=1e-3, weights_s=5e-3, row_s=1e-3, cached_token_s=1e-5, prefill_token_s=1e-4)
POLICIES = {
    **{policy.name: policy.make for policy in ALL},
    "fixed_cap": lambda capacities: FixedCapPolicy(len(capacities), cap=4),
}


def small(seed: int = 1, *, num_prompts: int = 6, max_response: int = 400) -> Workload:
    return synthetic(
        "small",
        seed=seed,
        num_prompts=num_prompts,
        group_size=4,
        median_response=150,
        max_response=max_response,
    )


def one_turn(*lengths: int, prompt: int = 10) -> Workload:
    return Workload(
        name="one-turn",
        max_response=max(lengths),
        rollouts=tuple(
            RolloutWork(session=f"s{i}", group="g", prompt_tokens=prompt, turns=(TurnWork(num_sampled=n),))
            for i, n in enumerate(lengths)
        ),
    )


def token_by_token(requests: list[tuple[int, int]], capacity: int) -> tuple[list[float], int, int]:
    """Ends of (context, new) turns that all arrive at 0 on one engine, preemptions, peak: one step at a time."""
    waiting = deque((i, context, new) for i, (context, new) in enumerate(requests))
    rows: list[list[int]] = []
    ends, t, preemptions, peak = [inf] * len(requests), 0.0, 0, 0
    while waiting or rows:
        preempted = False
        while sum(row[1] for row in rows) + len(rows) > capacity:
            i, context, new = rows.pop()
            waiting.appendleft((i, context, new))
            preemptions, preempted = preemptions + 1, True
        prefilled = 0
        while waiting and not preempted:
            i, context, new = waiting[0]
            if sum(row[1] for row in rows) + len(rows) + context + 1 > capacity:
                break
            rows.append(list(waiting.popleft()))
            prefilled += context
        for row in rows:
            row[1], row[2] = row[1] + 1, row[2] - 1
        cached = sum(row[1] for row in rows)
        peak = max(peak, cached)
        t += COST.base_s(len(rows)) + COST.cached_token_s * cached + COST.prefill_token_s * prefilled
        for row in rows:
            if row[2] == 0:
                ends[row[0]] = t
        rows = [row for row in rows if row[2]]
    return ends, preemptions, peak


def jumping(requests: list[tuple[int, int]], capacity: int) -> tuple[list[float], int, int]:
    clock = SimulatedClock()
    engine = SimulatedEngine(engine=0, capacity_tokens=capacity, cost=COST, clock=clock)
    for i, (context, new) in enumerate(requests):
        engine.submit(f"s{i}", context, new)
    ends = [inf] * len(requests)
    while (t := engine.next_event_s()) is not None:
        clock.move_to(max(t, clock()))
        for session, context in engine.advance():
            i = int(session[1:])
            assert context == sum(requests[i])
            ends[i] = clock()
            engine.release(session)
    return ends, engine.totals.num_preemptions, engine.totals.peak_cached


@given(
    requests=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=12),
    capacity=st.integers(70, 300),
)
@settings(max_examples=40)
def test_jumps_agree_with_a_reference_that_goes_token_by_token(requests, capacity):
    ends, preemptions, peak = token_by_token(requests, capacity)
    jumped_ends, jumped_preemptions, jumped_peak = jumping(requests, capacity)
    assert jumped_ends == pytest.approx(ends, rel=1e-6)
    assert (jumped_preemptions, jumped_peak) == (preemptions, peak)
    assert jumped_peak <= capacity


@pytest.mark.parametrize("name", POLICIES)
def test_tokens_are_conserved_and_the_cache_is_never_over_full(name):
    workload = small()
    cluster = Cluster(num_engines=3, capacity_tokens=1200, cost=COST)
    outcome = simulate(workload, POLICIES[name]([1200] * 3), cluster)
    assert outcome.num_rollouts == len(workload.rollouts)
    assert outcome.num_sampled == sum(work.num_sampled for work in workload.rollouts)
    assert outcome.simulated_kv_peak_frac <= 1.0
    assert outcome.simulated_makespan_s >= lower_bound_s(workload, cluster)
    assert outcome == simulate(workload, POLICIES[name]([1200] * 3), cluster)


def test_the_time_of_one_rollout_is_the_closed_form():
    outcome = simulate(one_turn(100), StickyPolicy(1), Cluster(num_engines=1, capacity_tokens=200, cost=COST))
    steps = sum(COST.base_s(1) + COST.cached_token_s * (10 + i) for i in range(1, 101))
    assert outcome.simulated_makespan_s == pytest.approx(steps + 10 * COST.prefill_token_s)


def test_a_larger_cache_never_preempts_more():
    workload = one_turn(*range(50, 80))
    preemptions = [
        simulate(
            workload, StickyPolicy(1), Cluster(num_engines=1, capacity_tokens=capacity, cost=COST)
        ).num_preemptions
        for capacity in (300, 600, 1200, 2400, 4800)
    ]
    assert preemptions == sorted(preemptions, reverse=True)
    assert preemptions[0] > 0
    assert preemptions[-1] == 0


def test_a_preempted_rollout_pays_for_its_context_again():
    # Prefix hits on preempted blocks would make recomputing free.
    workload = one_turn(*[60] * 8)
    outcome = simulate(workload, StickyPolicy(1), Cluster(num_engines=1, capacity_tokens=300, cost=COST))
    prompts = sum(work.prompt_tokens for work in workload.rollouts)
    assert outcome.num_preemptions > 0
    assert outcome.num_recomputed > 10 * outcome.num_preemptions
    assert outcome.num_prefilled == prompts + outcome.num_recomputed


def test_the_worst_case_reserve_never_preempts():
    cluster = Cluster(num_engines=2, capacity_tokens=1500, cost=COST)
    assert simulate(small(), KvBudgetPolicy([1500, 1500]), cluster).num_preemptions == 0


def test_synchronised_tools_wait_for_the_slowest_turn():
    turns = (TurnWork(num_sampled=10, tool_s=0.1, tool_tokens=1), TurnWork(num_sampled=1))
    work = RolloutWork(session="quick", group="g", prompt_tokens=1, turns=turns)
    slow = RolloutWork(session="slow", group="g", prompt_tokens=1, turns=(TurnWork(num_sampled=500),))
    workload = Workload(name="two", max_response=500, rollouts=(work, slow))
    makespans = [
        simulate(
            workload,
            StickyPolicy(2),
            Cluster(num_engines=2, capacity_tokens=600, cost=COST, synchronised_tools=synchronised),
        ).simulated_makespan_s
        for synchronised in (False, True)
    ]
    assert makespans[1] >= makespans[0] + 0.1


def test_tool_calls_beyond_the_workers_wait_their_turn():
    turns = (TurnWork(num_sampled=1, tool_s=5.0, tool_tokens=1), TurnWork(num_sampled=1))
    rollouts = tuple(RolloutWork(session=f"s{i}", group="g", prompt_tokens=1, turns=turns) for i in range(4))
    workload = Workload(name="tools", max_response=10, rollouts=rollouts)
    cluster = Cluster(num_engines=1, capacity_tokens=100, cost=COST, tool_workers=2)
    assert simulate(workload, StickyPolicy(1), cluster).simulated_makespan_s > 10.0


def test_a_rollout_that_moves_leaves_no_cache_behind():
    """Each turn goes to the next engine, as in tests/trainer/test_rollout_events.py for the live loop."""

    class Moving(StickyPolicy):
        num_arrivals = 0

        def on_arrive(self, arrival, t):
            self.num_arrivals += 1
            return [Assignment(session=arrival.session, engine=self.num_arrivals % 2)]

    turns = (TurnWork(num_sampled=20, tool_s=0.1, tool_tokens=5), TurnWork(num_sampled=20))
    workload = Workload(
        name="moving",
        max_response=45,
        rollouts=tuple(
            RolloutWork(session=f"s{i}", group="g", prompt_tokens=10, turns=turns) for i in range(3)
        ),
    )
    simulation = Simulation(workload, Moving(2), Cluster(num_engines=2, capacity_tokens=1000, cost=COST))
    simulation.run()
    assert [engine.report().free_kv_tokens for engine in simulation.engines] == [1000, 1000]


def test_a_policy_that_forgets_a_rollout_is_an_error():
    class Forgetful(StickyPolicy):
        def on_arrive(self, arrival, t):
            return [] if arrival.session == "s1" else super().on_arrive(arrival, t)

    with pytest.raises(RuntimeError, match="1 of 3 rollouts were never assigned"):
        simulate(one_turn(5, 5, 5), Forgetful(1), Cluster(num_engines=1, capacity_tokens=100, cost=COST))


def test_synthetic_workloads_repeat_within_their_limits():
    workload = small(seed=5)
    assert workload == small(seed=5)
    assert workload != small(seed=6)
    for work in workload.rollouts:
        assert 1 <= work.num_sampled + sum(turn.tool_tokens for turn in work.turns) <= workload.max_response
        assert all(turn.num_sampled >= 1 for turn in work.turns)
        assert work.turns[-1].tool_tokens == 0
