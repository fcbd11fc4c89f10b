"""Slow, lost and deserted engines, and lost calls, in the rollout loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.problem import Problem
from records.tool_call import Status
from records.trajectory import Rollout, StopReason
from tests.trainer.fakes import (
    ANSWER,
    AdmitAll,
    FakeWake,
    ScriptedEngine,
    ScriptedTool,
    TimedEngine,
    a_loop,
    call_text,
    script,
)
from trainer.engines.protocol import Recovery
from trainer.rollout.episode import RolloutClock
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import Task
from trainer.scheduling.fixed_cap import FixedCapPolicy
from trainer.scheduling.policies import ALL, scheduling_policy
from trainer.scheduling.policies.sticky import StickyPolicy
from trainer.scheduling.policy import Arrival, Assignment, Policy

POLICIES: dict[str, Callable[[Sequence[int]], Policy]] = {
    **{policy.name: policy.make for policy in ALL},
    "fixed_cap": lambda capacities: FixedCapPolicy(len(capacities), cap=2),
}
TWO_CALLS = script(call_text(), call_text(), ANSWER)


class Turns(AdmitAll):
    """Sends each sample's arrivals to the engines of its list in sequence; a lost engine's to the last."""

    def __init__(self, *engines_of_sample: list[int]) -> None:
        self.engines_of_sample = engines_of_sample

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        engines = self.engines_of_sample[int(arrival.session.rsplit("/", 1)[1])]
        return [
            Assignment(session=arrival.session, engine=engines.pop(0) if len(engines) > 1 else engines[0])
        ]


def loop_of(
    engines: list[Any], policy: Policy, tool: ScriptedTool, rejoin_iterations: int | None = None
) -> RolloutLoop:
    loop = a_loop(engines[0], tool)
    settings = replace(loop.settings, rejoin_iterations=rejoin_iterations)
    return replace(loop, engines=engines, policy=policy, settings=settings)


def run(loop: RolloutLoop, num: int, of: str = "p") -> list[tuple[Rollout, RolloutClock]]:
    problem = Problem(id=of, prompt="what is 2 + 2?", answer="4")
    return list(loop.run([Task(problem=problem, sample=sample, step=5) for sample in range(num)]))


def test_a_rollout_on_a_fast_engine_does_not_wait_for_a_slow_one() -> None:
    """Three turns of 1 s or 10 s and two calls of 0.5 s: each rollout ends when its own turns and calls have ended."""
    tool = ScriptedTool(after_s=0.5)
    fast = TimedEngine(TWO_CALLS, clock=tool.wake, turn_s=1.0)
    slow = TimedEngine(TWO_CALLS, clock=tool.wake, turn_s=10.0)
    loop = loop_of([slow, fast], Turns([0], [1], [1], [0], [1]), tool)
    problem = Problem(id="p", prompt="2", answer="4")
    tasks = [Task(problem=problem, sample=sample) for sample in range(5)]
    ended = [(rollout.sample, tool.wake.now()) for rollout, _ in loop.run(tasks)]
    assert ended == [(sample, 3 * 1.0 + 2 * 0.5) for sample in (1, 2, 4)] + [
        (sample, 3 * 10.0 + 2 * 0.5) for sample in (0, 3)
    ]


def test_a_rollout_that_moves_releases_the_engine_that_it_leaves() -> None:
    engines = [ScriptedEngine(TWO_CALLS), ScriptedEngine(script(call_text(), ANSWER))]
    run(loop_of(engines, Turns([0, 1, 1]), ScriptedTool()), 1)
    assert engines[0].calls == ["release rl1/5/p/0"]
    assert engines[1].calls == ["release rl1/5/p/0"]


@pytest.mark.parametrize("name", POLICIES)
def test_rollouts_of_a_lost_engine_continue_on_the_others(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = ScriptedTool(after_s=0.3)
    engines = [
        TimedEngine(TWO_CALLS, clock=tool.wake, dies_at_s=1.5),
        TimedEngine(TWO_CALLS, clock=tool.wake),
    ]
    # The fake answers by the number of turns that it has seen, so both engines count alike.
    engines[1].num_turns = engines[0].num_turns
    pairs = run(loop_of(engines, POLICIES[name]([8000] * 2), tool), 6)
    assert [rollout.stop for rollout, _ in pairs] == [StopReason.ANSWER] * 6
    assert sorted(rollout.sample for rollout, _ in pairs) == list(range(6))
    assert len({tuple(rollout.ids) for rollout, _ in pairs}) == 1
    assert sum(clock.num_restarts for _, clock in pairs) > 0
    assert "engine 0 is lost: ConnectionError: the engine is gone" in capsys.readouterr().out


def test_the_error_of_the_last_engine_ends_the_batch() -> None:
    tool = ScriptedTool()
    engines = [TimedEngine(TWO_CALLS, clock=tool.wake, dies_at_s=s) for s in (0.5, 1.5)]
    with pytest.raises(ConnectionError, match="gone"):
        run(loop_of(engines, scheduling_policy("sticky").make([8000] * 2), tool), 4)


@pytest.mark.parametrize("name", POLICIES)
def test_an_engine_that_is_back_takes_rollouts_again(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Engine 0 is lost in the first turn of the first problem; the problems after it find two engines."""
    tool = ScriptedTool(after_s=0.3)
    engines = [
        TimedEngine(TWO_CALLS, clock=tool.wake, dies_at_s=0.5, back_at_s=2.5),
        TimedEngine(TWO_CALLS, clock=tool.wake),
    ]
    engines[1].num_turns = engines[0].num_turns
    loop = loop_of(engines, POLICIES[name]([4000] * 2), tool)
    batches = [run(loop, 8, of=problem) for problem in "pqr"]
    assert [rollout.stop for pairs in batches for rollout, _ in pairs] == [StopReason.ANSWER] * 24
    assert loop.lost == {}
    assert any(request.session.startswith(("rl1/5/q", "rl1/5/r")) for request in engines[0].requests)
    assert "engine 0 is back after ConnectionError" in capsys.readouterr().out


@pytest.mark.parametrize("name", POLICIES)
def test_rollouts_wait_while_every_engine_restarts_and_resume_from_their_ids(name: str) -> None:
    """Both engines are lost; tools answer meanwhile, and one engine returns before the other."""
    tool = ScriptedTool(after_s=0.3)
    engines = [
        TimedEngine(TWO_CALLS, clock=tool.wake, dies_at_s=1.1, back_at_s=9.0),
        TimedEngine(TWO_CALLS, clock=tool.wake, dies_at_s=1.2, back_at_s=7.0),
    ]
    engines[1].num_turns = engines[0].num_turns
    pairs = run(loop_of(engines, POLICIES[name]([8000] * 2), tool), 6)
    assert [rollout.stop for rollout, _ in pairs] == [StopReason.ANSWER] * 6
    assert len({tuple(rollout.ids) for rollout, _ in pairs}) == 1


def test_an_engine_that_never_returns_ends_the_batch_with_its_error() -> None:
    tool = ScriptedTool()
    engine = TimedEngine(TWO_CALLS, clock=tool.wake, dies_at_s=0.5, back_at_s=10**6)

    def give_up() -> None:
        engine.recovery = Recovery.GONE
        engine.wake()

    tool.wake.at(5.0, give_up)
    with pytest.raises(ConnectionError, match="gone"):
        run(loop_of([engine], StickyPolicy(1), tool), 2)
    assert tool.wake.now() == 5.0


@pytest.mark.parametrize(("broken", "num_restarts"), [("report", 1), ("release", 0)])
def test_an_engine_that_raises_at_a_report_or_a_release_is_lost(
    broken: str, num_restarts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rollout moves after its first turn, so that its first engine is released while the other one decodes."""

    def fail(*arguments: object) -> None:
        raise BrokenPipeError("no process")

    tool = ScriptedTool(after_s=0.3)
    engines = [TimedEngine(TWO_CALLS, clock=tool.wake) for _ in range(2)]
    engines[1].num_turns = engines[0].num_turns
    monkeypatch.setattr(engines[0], broken, fail)
    loop = loop_of(engines, Turns([0, 1]), tool)
    pairs = run(loop, 1)
    assert [(rollout.stop, clock.num_restarts) for rollout, clock in pairs] == [
        (StopReason.ANSWER, num_restarts)
    ]
    assert list(loop.lost) == [0]


def test_a_lost_call_is_retried_after_a_pause_without_blocking_others() -> None:
    tool = ScriptedTool(statuses=[Status.LOST, Status.LOST])
    engine = ScriptedEngine(
        lambda session, turn: call_text() if session.endswith("0") and not turn else ANSWER
    )
    pairs = run(loop_of([engine], AdmitAll(), tool), 2)
    assert [(rollout.sample, clock.num_retries) for rollout, clock in pairs] == [(1, 0), (0, 2)]
    assert tool.wake.now() > 0


def test_a_call_without_an_answer_is_lost_at_its_deadline() -> None:
    tool = ScriptedTool(after_s=10**6)
    ((rollout, clock),) = run(loop_of([ScriptedEngine(TWO_CALLS)], AdmitAll(), tool), 1)
    assert (rollout.stop, rollout.detail, clock.num_retries) == (StopReason.ABORTED, "tool: lost", 2)


def test_a_caller_that_stops_early_leaves_idle_engines_behind() -> None:
    tool = ScriptedTool()
    engine = TimedEngine(script(ANSWER, ANSWER), clock=tool.wake)
    loop = loop_of([engine], AdmitAll(), tool)
    tasks = [Task(problem=Problem(id="p", prompt="2", answer="4"), sample=sample) for sample in (0, 1)]
    engine.turn_s = 1.0
    rollouts = loop.run(tasks)
    first, _ = next(rollouts)
    rollouts.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert first.sample == 0
    assert not engine.waiting
    assert {call.split()[0] for call in engine.calls} <= {"abort", "release"}
    assert engine.advance() == []


@given(
    name=st.sampled_from(sorted(POLICIES)),
    turns=st.lists(st.integers(0, 2), min_size=1, max_size=8),
    deaths=st.lists(st.floats(0.1, 12.0), min_size=0, max_size=3),
    restart_s=st.lists(st.floats(0.1, 5.0), min_size=2, max_size=2),
    turn_s=st.lists(st.floats(0.1, 3.0), min_size=3, max_size=3),
    tool_s=st.floats(0.0, 2.0),
    lost=st.lists(st.sampled_from([Status.LOST, Status.OK, Status.ERROR]), max_size=6),
)
def test_every_rollout_ends_exactly_once_for_any_order_of_events(
    name: str,
    turns: list[int],
    deaths: list[float],
    restart_s: list[float],
    turn_s: list[float],
    tool_s: float,
    lost: list[Status],
) -> None:
    """One of three engines may be lost and never return."""
    tool = ScriptedTool(after_s=tool_s, statuses=list(lost))

    def text(session: str, turn: int) -> str:
        return call_text() if turn < turns[int(session.rsplit("/", 1)[1])] else ANSWER

    engines = [TimedEngine(text, clock=tool.wake, turn_s=seconds) for seconds in turn_s]
    for engine in engines:
        engine.num_turns = engines[-1].num_turns  # a rollout that moves goes on in its script
    for engine, dies_at_s in zip(engines, deaths, strict=False):
        engine.dies_at_s = dies_at_s
    for engine, seconds in zip(engines, restart_s, strict=False):
        engine.back_at_s = engine.dies_at_s + seconds
    pairs = run(loop_of(engines, POLICIES[name]([8000] * 3), tool), len(turns))
    assert sorted(rollout.sample for rollout, _ in pairs) == list(range(len(turns)))
    for rollout, _ in pairs:
        assert rollout.stop in (StopReason.ANSWER, StopReason.ABORTED)
        assert len(rollout.ids) == len(rollout.mask) == len(rollout.logprob)
    assert not any(engine.waiting for engine in engines if engine.dies_at_s > tool.wake.now())


def test_fake_wake_refuses_to_wait_for_nothing() -> None:
    with pytest.raises(AssertionError, match="never happens"):
        FakeWake().wait(None)
