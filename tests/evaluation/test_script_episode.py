"""Conversations in the rollout loop: ids as sampled, replies masked, every end apart, room kept, faults contained."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from evaluation.conversations.script_episode import (
    OneTurn,
    Script,
    ScriptEpisodes,
    ScriptFailed,
    open_scripts,
)
from records.problem import Problem
from records.tool_call import Limits
from records.trajectory import Rollout, StopReason
from tests.trainer.fakes import CharCodec, FakeWake, ScriptedEngine, TimedEngine, script
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END
from trainer.rollout.chat_text import ChatText, live
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.wake import Wake
from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policies.sticky import StickyPolicy

XY = script(f"x{TURN_END}", f"y{TURN_END}", f"z{TURN_END}")


@dataclass
class Echo:
    """Replies to `turns` - 1 turns with their number; raises `error` in place of reply `fails_at`."""

    turns: int
    fails_at: int = -1
    error: Exception = field(default_factory=lambda: ScriptFailed("the services are gone"))
    reply_text: str = "<{}>"
    read: list[str] = field(default_factory=list)

    def opening(self) -> ChatText:
        return live("go:")

    def add_turn(self, text: str) -> bool:
        self.read.append(text)
        return len(self.read) < self.turns

    def reply(self) -> ChatText:
        if len(self.read) == self.fails_at:
            raise self.error
        return live(self.reply_text.format(len(self.read)))


class Choking(Echo):
    """Fails at the turn that it reads."""

    def add_turn(self, text: str) -> bool:
        raise RecursionError("brackets in brackets")


@dataclass
class TimedThreads(Executor):
    """Runs each job `after_s(number)` later on the clock; None: never."""

    wake: FakeWake
    after_s: Callable[[int], float | None] = lambda number: 0.0
    num_jobs: int = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        after_s = self.after_s(self.num_jobs)
        self.num_jobs += 1
        if after_s is not None:
            self.wake.at(self.wake.now() + after_s, lambda: _do(future, fn))
        return future


def _do(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        future.set_result(job())
    except Exception as error:
        future.set_exception(error)


def a_loop(
    engine: Any,
    scripts: tuple[Script, ...],
    *,
    max_response: int = 100,
    rejoin_iterations: int | None = 2,
    threads: TimedThreads | None = None,
) -> RolloutLoop:
    threads = threads or TimedThreads(FakeWake())
    return RolloutLoop(
        engines=[engine],
        policy=KvBudgetPolicy([4000]),
        episodes=ScriptEpisodes(lambda task: scripts[task.sample], threads),
        codec=CharCodec(),
        wake=threads.wake,
        settings=RolloutSettings(
            run="r", checkpoint="m", benchmark="b", max_prompt=100, max_response=max_response, max_turns=1,
            temperature=0.0, top_p=1.0, seed=1, policy_version=0, limits=Limits(), rejoin_iterations=rejoin_iterations,
        ),
    )  # fmt: skip


def hold(loop: RolloutLoop, num: int = 1) -> list[Rollout]:
    """`num` conversations about one problem, in order of sample."""
    tasks = [Task(problem=Problem(id="p", prompt="", answer=""), sample=sample) for sample in range(num)]
    return sorted((rollout for rollout, _ in loop.run(tasks)), key=lambda rollout: rollout.sample)


def test_one_turn_is_a_prompt_and_sampled_tokens() -> None:
    (held,) = hold(a_loop(ScriptedEngine(script(f"yes{TURN_END}")), (OneTurn(live("Q?")),)))
    assert held.stop is StopReason.ANSWER
    assert [turn.text for turn in held.turns] == [f"yes{TURN_END}"]
    assert held.prompt_len == 2
    assert held.mask == [False] * 2 + [True] * 4


def test_replies_are_masked_and_ids_stay_as_sampled() -> None:
    engine = ScriptedEngine(script(f"ab{TURN_END}", f"cd{TURN_END}"))
    (held,) = hold(a_loop(engine, (Echo(turns=2),)))
    codec = CharCodec()
    assert codec.decode(held.ids) == f"go:ab{TURN_END}<1>cd{TURN_END}"
    assert held.ids != codec.encode(codec.decode(held.ids)), "twins of the sampled ids are kept"
    shown = [i for i, sampled in zip(held.ids, held.mask, strict=True) if not sampled]
    assert codec.decode(shown) == "go:<1>"
    assert engine.requests[1].ids == held.ids[: held.turns[1].start]
    assert engine.requests[0].seed != engine.requests[1].seed
    assert len(held.ids) == len(held.mask) == len(held.logprob)


def test_an_opening_may_exceed_max_prompt_but_must_leave_room() -> None:
    engine = ScriptedEngine(script(f"x{TURN_END}"))
    scripts = (OneTurn(live("q" * 344)), OneTurn(live("q" * 345)))
    fits, not_quite = hold(a_loop(engine, scripts, max_response=500), 2)
    assert fits.stop is StopReason.ANSWER
    assert (not_quite.stop, not_quite.detail, not_quite.ids, not_quite.turns) == (
        StopReason.CONTEXT, "prompt does not fit", [], [],
    )  # fmt: skip
    assert [request.max_new for request in engine.requests] == [256]


def test_a_turn_without_end_and_a_reply_without_room_stop_the_conversation() -> None:
    (cut,) = hold(a_loop(ScriptedEngine(script("x" * 200)), (Echo(turns=2),)))
    assert (cut.stop, cut.response_len) == (StopReason.LENGTH, 100)
    (full,) = hold(a_loop(ScriptedEngine(XY), (Echo(turns=2, reply_text="y" * 98),)))
    assert (full.stop, full.response_len) == (StopReason.CONTEXT, 2)


def test_a_turn_that_the_engine_aborts_gives_no_score() -> None:
    class Breaking(ScriptedEngine):
        def _complete(self, request: GenerateRequest) -> Completion:
            return replace(super()._complete(request), finish=Finish.ABORTED)

    (broken,) = hold(a_loop(Breaking(XY), (OneTurn(live("q")),)))
    assert (broken.stop, broken.detail) == (StopReason.ABORTED, "engine")


@pytest.mark.parametrize(
    ("lost", "detail"),
    [
        (Echo(turns=3, fails_at=2), "the services are gone"),
        (Echo(turns=3, fails_at=1, error=KeyError("results")), "script: KeyError: 'results'"),
        (Choking(turns=3), "script: RecursionError: brackets in brackets"),
    ],
    ids=["no reply", "a reply that raises", "a turn that it cannot read"],
)
def test_a_script_that_fails_loses_its_sample_and_no_other(lost: Echo, detail: str) -> None:
    failed, fine = hold(a_loop(ScriptedEngine(XY), (lost, Echo(turns=3))), 2)
    assert (failed.stop, failed.detail) == (StopReason.ABORTED, detail)
    assert (fine.stop, len(fine.turns)) == (StopReason.ANSWER, 3)


@pytest.mark.parametrize("rejoin_iterations", [None, 2])
def test_a_reply_that_never_comes_is_lost_at_its_deadline_and_no_hang(rejoin_iterations: int | None) -> None:
    threads = TimedThreads(FakeWake(), after_s=lambda number: None if number == 0 else 0.5)
    loop = a_loop(
        ScriptedEngine(XY),
        (Echo(turns=2), Echo(turns=2)),
        rejoin_iterations=rejoin_iterations,
        threads=threads,
    )
    never, fine = hold(loop, 2)
    assert (never.stop, never.detail) == (StopReason.ABORTED, "the script did not reply within 1800 s")
    assert (fine.stop, len(fine.turns)) == (StopReason.ANSWER, 2)


def test_batches_do_not_depend_on_how_long_replies_take() -> None:
    def batches(after_s: Callable[[int], float]) -> tuple[list[list[str]], list[Rollout]]:
        class Noting(ScriptedEngine):
            def advance(self) -> list[Completion]:
                seen.append(sorted(request.session for request in self.waiting))
                return super().advance()

        seen: list[list[str]] = []
        scripts = tuple(Echo(turns=1 + sample % 3) for sample in range(6))
        loop = a_loop(Noting(XY), scripts, threads=TimedThreads(FakeWake(), after_s))
        return seen, hold(loop, 6)

    assert batches(lambda number: 0.0) == batches(lambda number: float(7 * number % 5))


def test_conversations_beyond_the_cache_wait() -> None:
    engine = ScriptedEngine(XY)
    loop = a_loop(engine, tuple(Echo(turns=2) for _ in range(5)))
    loop.policy = KvBudgetPolicy([2 * 103 + 50])
    held = hold(loop, 5)
    assert [rollout.stop for rollout in held] == [StopReason.ANSWER] * 5
    assert all(f"release {request.session}" in engine.calls for request in engine.requests)


def test_a_conversation_whose_engine_is_lost_in_mid_turn_resumes_from_its_ids() -> None:
    """Engine 0 dies in the second turn of each conversation; the script reads each turn once."""
    wake = FakeWake()
    engines = [TimedEngine(XY, clock=wake, dies_at_s=1.5), TimedEngine(XY, clock=wake)]
    engines[1].num_turns = engines[0].num_turns  # the fake answers by the number of turns that it has seen
    scripts = tuple(Echo(turns=3) for _ in range(4))
    loop = a_loop(engines[0], scripts, rejoin_iterations=None, threads=TimedThreads(wake))
    loop.engines, loop.policy = engines, StickyPolicy(2)
    tasks = [Task(problem=Problem(id="p", prompt="", answer=""), sample=sample) for sample in range(4)]
    pairs = list(loop.run(tasks))
    assert len({tuple(rollout.ids) for rollout, _ in pairs}) == 1
    assert [one.read for one in scripts] == [[f"{letter}{TURN_END}" for letter in "xyz"]] * 4
    assert sum(clock.num_restarts for _, clock in pairs) == 2


def test_two_conversations_with_one_name_are_refused() -> None:
    loop = a_loop(ScriptedEngine(XY), (OneTurn(live("q")),))
    task = Task(problem=Problem(id="p", prompt="", answer=""), sample=0)
    with pytest.raises(ValueError, match="two rollouts are called b/0/p/0"):
        list(loop.run([task, task]))


def test_replies_of_real_threads_reach_a_loop_that_waits_for_them() -> None:
    scripts = tuple(Echo(turns=3) for _ in range(20))
    with open_scripts(lambda task: scripts[task.sample]) as episodes:
        loop = replace(
            a_loop(ScriptedEngine(XY), scripts, rejoin_iterations=None), episodes=episodes, wake=Wake()
        )
        held = hold(loop, 20)
    assert isinstance(episodes.threads, ThreadPoolExecutor)
    assert {(rollout.stop, len(rollout.turns)) for rollout in held} == {(StopReason.ANSWER, 3)}
