"""The forecast policy: survival curve, admission, placement of returning rollouts."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.engines.requests import EngineReport
from trainer.scheduling.policies.forecast import ForecastPolicy
from trainer.scheduling.policy import Arrival
from trainer.scheduling.survival import SurvivalCurve


def arrival(session: str, context: int = 100, max_new: int = 900) -> Arrival:
    return Arrival(session=session, group="g", context_tokens=context, max_new=max_new)


def report(engine: int, t: float, used: int, *, capacity: int = 10_000, waiting: int = 0) -> EngineReport:
    return EngineReport(
        engine=engine,
        t=t,
        free_kv_tokens=capacity - used,
        capacity_tokens=capacity,
        running=1,
        waiting=waiting,
        preemptions=0,
    )


def num_admitted(policy: ForecastPolicy, count: int = 100) -> int:
    return sum(len(policy.on_arrive(arrival(f"s{i}"), 0.0)) for i in range(count))


def test_more_rollouts_start_than_worst_case_lengths_would_allow_but_not_all():
    assert 10_000 // 1000 < num_admitted(ForecastPolicy([10_000])) < 60


def test_short_rollouts_make_the_policy_admit_more():
    policy = ForecastPolicy([10_000])
    num_before = num_admitted(policy, 200)
    started = num_before
    for i in range(60):
        started += len(policy.on_finish(f"s{i}", 1.0 + i, context_tokens=150))
    assert started - 60 > num_before


def test_an_engine_with_waiting_turns_gets_nothing_new():
    policy = ForecastPolicy([10_000])
    num_admitted(policy)
    policy.on_report(report(0, 1.0, 9_990, waiting=3))
    assert [policy.on_finish(f"s{i}", 2.0, context_tokens=200) for i in range(5)] == [[]] * 5
    assert policy.on_report(report(0, 3.0, 1_000)) != []


def test_a_returning_turn_stays_while_others_wait_and_then_moves_to_a_lighter_engine():
    policy = ForecastPolicy([10_000, 10_000])
    for name in ("a", "b"):
        policy.on_arrive(arrival(name), 0.0)
    policy.on_turn_end("a", 1.0, context_tokens=300)
    policy.on_report(report(0, 1.0, 5_000))
    policy.on_report(report(1, 1.0, 100))
    assert policy.on_arrive(arrival("a", 320), 2.0)[0].engine == 1
    policy.on_turn_end("a", 3.0, context_tokens=350)
    policy.on_report(report(0, 3.0, 500))
    policy.on_report(report(1, 3.0, 900))
    assert policy.on_arrive(arrival("a", 360), 4.0)[0].engine == 1


def test_a_rollout_larger_than_every_engine_is_refused():
    with pytest.raises(ValueError, match="may need 1000"):
        ForecastPolicy([999]).on_arrive(arrival("a"), 0.0)


def test_running_rollouts_count_as_evidence_of_length():
    # Only short rollouts have ended; an estimate from these alone would be too short.
    curve = SurvivalCurve(limit=1000)
    curve.refit(ended=[100] * 10, running=np.full(90, 500.0))
    assert curve.at(np.array([450.0]))[0] == pytest.approx(0.9, abs=0.03)
