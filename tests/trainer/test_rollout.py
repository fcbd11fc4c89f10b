"""The rollout loop: stop reasons, rejoins, tool calls (see also test_faults_rollout.py)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from records.problem import Problem
from records.tool_call import Status, ToolCall, ToolError, ToolResult
from records.trajectory import CallKind, Rollout, StopReason
from tests.trainer.fakes import (
    ANSWER,
    TOOL,
    AdmitAll,
    CharCodec,
    FakeWake,
    ScriptedEngine,
    ScriptedTool,
    a_loop,
    call_text,
    roll,
    sampled,
    script,
)
from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, ChatFormat
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import Task
from trainer.rollout.tool import Tool
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.rollout.wake import Wake
from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policy import Assignment


def tasks(num: int = 1) -> list[Task]:
    problem = Problem(id="p", prompt="what is 2 + 2?", answer="4")
    return [Task(problem=problem, sample=sample, step=5) for sample in range(num)]


def sample_of(session: str) -> int:
    return int(session.rsplit("/", 1)[1])


@dataclass
class SlowTool:
    """Answers a call once the engine has advanced far enough, or once the loop waits for it."""

    engine: ScriptedEngine
    ready_at: Callable[[ToolCall], int]
    """Engine iteration at which a call's result is present."""
    wake: Wake
    order: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        self.order.append(call.id)
        future = _SlowFuture(
            self.engine, self.ready_at(call), ToolResult(id=call.id, status=Status.OK, stdout=call.code)
        )
        assert isinstance(self.wake, FakeWake)
        self.wake.at(self.wake.now() + 1.0, future.arrive)
        return future

    def close_session(self, name: str) -> None:
        self.closed.append(name)


class _SlowFuture(Future[ToolResult]):
    def __init__(self, engine: ScriptedEngine, ready_at: int, answer: ToolResult) -> None:
        super().__init__()
        self._engine, self._ready_at, self._answer = engine, ready_at, answer

    def arrive(self) -> None:
        self._ready_at = 0

    def done(self) -> bool:
        return self._engine.iteration >= self._ready_at

    def result(self, timeout: float | None = None) -> ToolResult:
        return self._answer


def use(loop: RolloutLoop, tool: Tool, **changes: Any) -> None:
    """Put another tool, and another chat format, into a loop."""
    assert isinstance(loop.episodes, ToolEpisodes)
    loop.episodes = ToolEpisodes(tool=tool, chat=replace(loop.episodes.chat, **changes))


def run(loop: RolloutLoop, num: int = 1) -> list[Rollout]:
    return [trajectory for trajectory, _ in loop.run(tasks(num))]


def varied(session: str, turn: int) -> str:
    """Sample i calls the tool i times, then answers."""
    return call_text(f"{sample_of(session)}{turn}") if turn < sample_of(session) else ANSWER


# --- one rollout -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns", "settings", "stop"),
    [
        ([ANSWER], {}, StopReason.ANSWER),
        ([call_text(), ANSWER], {}, StopReason.ANSWER),
        ([ANSWER], {"max_response": 20}, StopReason.LENGTH),
        ([call_text()] * 3, {"max_turns": 3}, StopReason.MAX_TURNS),
        ([call_text(), ANSWER], {"max_response": len(sampled(call_text())) + 10}, StopReason.CONTEXT),
    ],
    ids=["answer", "answer after a call", "length", "max turns", "context"],
)
def test_each_rollout_holds_its_stop_reason(
    turns: list[str], settings: dict[str, Any], stop: StopReason
) -> None:
    (trajectory,) = roll(ScriptedEngine(script(*turns)), **settings)
    assert trajectory.stop is stop
    assert trajectory.policy_version == 3


def test_a_call_that_ends_exactly_at_the_budget_has_no_room_for_its_response() -> None:
    (trajectory,) = roll(ScriptedEngine(script(call_text(), ANSWER)), max_response=len(sampled(call_text())))
    assert trajectory.stop is StopReason.CONTEXT
    assert trajectory.turns[0].result is not None
    assert trajectory.response_len == len(sampled(call_text()))


@pytest.mark.parametrize(("room", "stop"), [(0, StopReason.CONTEXT), (1, StopReason.LENGTH)])
def test_a_tool_response_fits_when_one_token_can_still_be_sampled(room: int, stop: StopReason) -> None:
    chat = ChatFormat(system="brief", tool_name=TOOL)
    budget = len(sampled(call_text())) + len(CharCodec().encode(chat.tool_response("4"))) + room
    (trajectory,) = roll(ScriptedEngine(script(call_text(), ANSWER)), max_response=budget)
    assert trajectory.stop is stop
    assert [turn.end - turn.start for turn in trajectory.turns[1:]] == [1] * room


def test_log_probs_stay_beside_the_ids_they_belong_to() -> None:
    (trajectory,) = roll(ScriptedEngine(script(call_text(), ANSWER)))
    assert len(trajectory.ids) == len(trajectory.mask) == len(trajectory.logprob)
    for turn in trajectory.turns:
        expected = [-0.01 * (place + 1) for place in range(turn.end - turn.start)]
        assert trajectory.logprob[turn.start : turn.end] == expected
    assert not any(trajectory.mask[: trajectory.prompt_len])


def test_a_prompt_that_does_not_fit_is_counted_and_never_cut() -> None:
    engine = ScriptedEngine(script(ANSWER))
    loop = a_loop(engine)
    loop.settings = replace(loop.settings, max_prompt=20)
    ((trajectory, clock),) = loop.run(tasks())
    assert (trajectory.stop, trajectory.detail) == (StopReason.CONTEXT, "prompt does not fit")
    assert (trajectory.ids, trajectory.turns, engine.requests) == ([], [], [])
    assert clock.num_retries == 0


def test_the_policy_receives_one_time_in_every_batch() -> None:

    class Listening(AdmitAll):
        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        def on_report(self, report: EngineReport) -> list[Assignment]:
            self.times.append(report.t)
            return super().on_report(report)

    engine, times = ScriptedEngine(script(call_text(), ANSWER)), []
    for _ in range(2):
        loop, policy = a_loop(engine), Listening()
        loop.policy = policy
        list(loop.run(tasks()))
        times.append(policy.times)
        engine.num_turns.clear()
    assert times[0] == times[1]
    assert (times[0][0], times[0][-1]) == (1.0, float(loop.cycle))


def test_the_prompt_is_the_chat_formats_and_ends_in_the_opening() -> None:
    engine = ScriptedEngine(script(ANSWER))
    roll(engine)
    expected = ChatFormat(system="brief", tool_name=TOOL).prompt("what is 2 + 2?")
    assert CharCodec().decode(engine.requests[0].ids) == expected


def test_failed_calls_of_the_model_get_a_message_and_the_rollout_continues() -> None:
    broken = f"x</reason><tool_call>{{</tool_call>{TURN_END}"
    unknown = f'x</reason><tool_call>{{"name": "ls", "arguments": {{"code": "1"}}}}</tool_call>{TURN_END}'
    tool = ScriptedTool()
    (trajectory,) = roll(ScriptedEngine(script(broken, unknown, ANSWER)), tool)
    assert [turn.call for turn in trajectory.turns] == [
        CallKind.PARSE_ERROR, CallKind.UNKNOWN_TOOL, CallKind.NONE
    ]  # fmt: skip
    assert tool.calls == []
    text = CharCodec().decode(trajectory.ids[trajectory.turns[0].end :])
    assert "cannot read the call" in text
    assert f"no tool named 'ls'; use {TOOL}" in text


def test_a_stored_result_has_no_clock() -> None:
    class Timed(ScriptedTool):
        def submit(self, call: ToolCall) -> Future[ToolResult]:
            future: Future[ToolResult] = Future()
            error = ToolError(type="ValueError", message="no", traceback="ValueError: no")
            future.set_result(
                ToolResult(id=call.id, status=Status.ERROR, error=error, wall_s=1.5, cpu_s=0.5, queue_s=0.25)
            )
            return future

    ((trajectory, clock),) = a_loop(ScriptedEngine(script(call_text(), ANSWER)), Timed()).run(tasks())
    result = trajectory.turns[0].result
    assert result is not None
    assert (result.status, result.wall_s, result.cpu_s) == (Status.ERROR, 0.0, 0.0)
    assert (clock.cpu_s, clock.queue_s) == (0.5, 0.25)


def test_a_call_holds_limits_its_own_seed_and_no_session() -> None:
    tool = ScriptedTool()
    roll(ScriptedEngine(script(call_text("1"), call_text("2"), ANSWER)), tool)
    assert [call.code for call in tool.calls] == ["1", "2"]
    assert len({call.seed for call in tool.calls}) == len({call.id for call in tool.calls}) == 2
    assert all(call.session is None and call.limits.wall_s == 20.0 for call in tool.calls)


# --- infrastructure faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.LOST, Status.REJECTED, Status.CANCELLED])
def test_each_lost_call_is_retried_up_to_a_limit_and_then_aborts(status: Status) -> None:
    twice = [status, status, Status.OK]
    tool = ScriptedTool(statuses=[*twice, *twice])
    (trajectory,) = roll(ScriptedEngine(script(call_text(), call_text(), ANSWER)), tool)
    assert trajectory.stop is StopReason.ANSWER
    assert len(tool.calls) == 6

    tool = ScriptedTool(statuses=[status] * 9)
    (trajectory,) = roll(ScriptedEngine(script(call_text(), ANSWER)), tool)
    assert (trajectory.stop, trajectory.detail) == (StopReason.ABORTED, f"tool: {status}")
    assert len(tool.calls) == 3
    assert len({call.id for call in tool.calls}) == 1
    assert trajectory.turns[0].result is None
    assert trajectory.response_len == len(sampled(call_text()))


def test_a_lost_session_is_never_retried() -> None:
    tool = ScriptedTool(statuses=[Status.SESSION_LOST])
    (trajectory,) = roll(ScriptedEngine(script(call_text(), ANSWER)), tool)
    assert (trajectory.stop, len(tool.calls)) == (StopReason.ABORTED, 1)


def test_a_turn_that_the_engine_aborts_aborts_the_rollout() -> None:
    class Aborting(ScriptedEngine):
        def _complete(self, request: GenerateRequest) -> Completion:
            return replace(super()._complete(request), finish=Finish.ABORTED)

    (trajectory,) = roll(Aborting(script(call_text(), ANSWER)))
    assert trajectory.stop is StopReason.ABORTED
    assert trajectory.turns[0].call is CallKind.NONE


def test_two_rollouts_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="problem ids must be unique"):
        list(a_loop(ScriptedEngine(script(ANSWER))).run(tasks() * 2))


def test_a_tokenizer_that_splits_the_end_of_turn_is_refused() -> None:
    class Splitting(CharCodec):
        def encode(self, text: str) -> list[int]:
            return [ord(c) for c in text]

    loop = a_loop(ScriptedEngine(script(ANSWER)))
    with pytest.raises(ValueError, match="must be a special token"):
        replace(loop, codec=Splitting())


def test_a_policy_that_admits_nothing_is_an_error() -> None:
    class AdmitNone(AdmitAll):
        def on_arrive(self, arrival: object, t: float) -> list:
            return []

    loop = a_loop(ScriptedEngine(script(ANSWER)))
    loop.policy = AdmitNone()
    with pytest.raises(RuntimeError, match="admits none"):
        run(loop)


# --- many rollouts -------------------------------------------------------------------------------------------


@dataclass
class OneAtATime(ScriptedEngine):
    """Refuses a second request of a session, as engines do, and records the sessions of each iteration."""

    batches: list[list[str]] = field(default_factory=list)

    def submit(self, request: GenerateRequest) -> None:
        assert request.session not in [waiting.session for waiting in self.waiting]
        super().submit(request)

    def advance(self) -> list[Completion]:
        self.batches.append(sorted(request.session for request in self.waiting))
        return super().advance()


def deterministic(latency: Callable[[ToolCall], int]) -> tuple[list[Rollout], list[list[str]]]:
    engine = OneAtATime(varied)
    loop = a_loop(engine, max_turns=9)
    use(loop, SlowTool(engine, latency, loop.wake))
    return run(loop, num=5), engine.batches


def test_deterministic_rollouts_make_the_same_batches_for_any_tool_time() -> None:
    """Results, batches and trajectories do not depend on the time of a tool's answer."""
    at_once = deterministic(lambda call: 0)
    never_early = deterministic(lambda call: 10**9)
    mixed = deterministic(lambda call: call.seed % 7)
    assert at_once == never_early == mixed
    assert at_once[0][0].sample == 0


def test_a_deterministic_rollout_rejoins_after_a_fixed_number_of_cycles() -> None:
    """Sample 1 leaves after the first iteration and misses the next two; sample 0 decodes for six more."""

    class Long(OneAtATime):
        """Turns of sample 1 take one iteration; those of the others end with the sixth."""

        def advance(self) -> list[Completion]:
            self.batches.append(sorted(request.session for request in self.waiting))
            self.iteration += 1
            ready = [r for r in self.waiting if sample_of(r.session) == 1 or self.iteration % 6 == 0]
            self.waiting = [r for r in self.waiting if r not in ready]
            return [self._complete(request) for request in ready]

    engine = Long(lambda session, turn: call_text() if sample_of(session) == 1 and turn == 0 else ANSWER)
    run(a_loop(engine), num=2)
    present = [any(sample_of(session) == 1 for session in batch) for batch in engine.batches]
    assert present == [True, False, False, True, False, False]


def test_without_determinism_others_continue_while_a_tool_runs() -> None:
    """Sample 1's call outlasts all turns of the others: it ends last, and no rollout waits for it."""
    engine = OneAtATime(varied)
    loop = a_loop(engine, max_turns=9)
    loop.settings = replace(loop.settings, rejoin_iterations=None)
    slow = SlowTool(engine, lambda call: 10**9 if "/1#" in call.id else 0, loop.wake)
    use(loop, slow)
    ended = [t.sample for t in run(loop, num=5)]
    assert ended[-1] == 1
    assert ended[:-1] == [0, 2, 3, 4]


def test_results_do_not_depend_on_determinism_when_the_engine_is_exact() -> None:
    engine = OneAtATime(varied)
    loop = a_loop(engine, max_turns=9)
    loop.settings = replace(loop.settings, rejoin_iterations=None)
    use(loop, SlowTool(engine, lambda call: engine.iteration + 2, loop.wake))
    ids = {t.sample: t.ids for t in run(loop, num=5)}
    assert ids == {t.sample: t.ids for t in deterministic(lambda call: 0)[0]}


def test_an_engine_with_a_small_cache_serves_all_and_releases_every_session() -> None:
    engine = OneAtATime(varied)
    loop = a_loop(engine, max_response=1000, max_turns=9)
    loop.policy = KvBudgetPolicy(capacities=[2200])
    use(loop, SlowTool(engine, lambda call: 0, loop.wake))
    ended = run(loop, num=6)
    assert sorted(t.sample for t in ended) == list(range(6))
    assert max(map(len, engine.batches)) <= 2
    released = {call.removeprefix("release ") for call in engine.calls if call.startswith("release ")}
    assert released == {request.session for request in engine.requests}


def test_a_tool_session_is_named_after_its_rollout_and_closed_once() -> None:
    engine = ScriptedEngine(varied)
    loop = a_loop(engine)
    tool = SlowTool(engine, lambda call: 0, loop.wake)
    calls: list[ToolCall] = []

    class Watched:
        def submit(self, call: ToolCall) -> Future[ToolResult]:
            calls.append(call)
            return tool.submit(call)

        def close_session(self, name: str) -> None:
            tool.close_session(name)

    watched: Tool = Watched()
    use(loop, watched, session=True)
    run(loop, num=3)
    assert {call.session for call in calls} == {"rl1/5/p/1", "rl1/5/p/2"}
    assert sorted(tool.closed) == ["rl1/5/p/1", "rl1/5/p/2"]


def test_each_engine_gets_the_turns_that_the_policy_sends_it() -> None:
    class ByParity(AdmitAll):
        def on_arrive(self, arrival: object, t: float) -> list:
            (assignment,) = super().on_arrive(arrival, t)  # pyright: ignore[reportArgumentType]
            return [replace(assignment, engine=sample_of(assignment.session) % 2)]

    engines = [ScriptedEngine(varied), ScriptedEngine(varied)]
    loop = a_loop(engines[0], max_turns=9)
    loop.engines, loop.policy = engines, ByParity()
    assert len(run(loop, num=4)) == 4
    for parity, engine in enumerate(engines):
        assert {sample_of(request.session) % 2 for request in engine.requests} == {parity}
