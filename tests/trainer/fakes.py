"""Fakes of engine, policy, tool and tokenizer, so that a rollout or a step runs without a model."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from math import inf

from records.problem import Problem
from records.tool_call import Limits, Status, ToolCall, ToolResult
from records.trajectory import Rollout
from trainer.engines.protocol import Recovery
from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, ChatFormat
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.tool import Tool
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.rollout.wake import Wake
from trainer.scheduling.policy import Arrival, Assignment

END = 0
"""Id of the end-of-turn token."""
TWIN = 1000
"""Added to an id: another token of the same text, so that decoding and encoding changes ids."""
TOOL = "execute_python_code_with_standard_io"


def call_text(code: str = "print(1)") -> str:
    """A turn that calls the tool, end-of-turn token included."""
    return (
        f'x</reason><tool_call>{{"name": "{TOOL}", "arguments": {{"code": "{code}"}}}}</tool_call>{TURN_END}'
    )


ANSWER = f"so</reason><answer>\\boxed{{4}}</answer>{TURN_END}"


class CharCodec:
    """One id per character; the end-of-turn token is one id, and every character has a twin."""

    def encode(self, text: str) -> list[int]:
        pieces = re.split(f"({re.escape(TURN_END)})", text)
        return [i for piece in pieces for i in ([END] if piece == TURN_END else [ord(c) for c in piece])]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(TURN_END if i == END else chr(i % TWIN) for i in ids)


def sampled(text: str) -> list[int]:
    """Ids that a policy might have sampled for the text: every second one is a twin."""
    ids = CharCodec().encode(text)
    return [i if i == END or place % 2 else i + TWIN for place, i in enumerate(ids)]


class FakeWake(Wake):
    """A clock that skips waits and runs scheduled actions; a wait without an event is an error, never a hang."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self._is_called = False
        self._scheduled: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Run `action` once a wait reaches that time."""
        heapq.heappush(self._scheduled, (time_s, next(self._numbers), action))

    def now(self) -> float:
        return self.time_s

    def call(self) -> None:
        self._is_called = True

    def wait(self, timeout_s: float | None) -> None:
        if not self._is_called:
            until = inf if timeout_s is None else self.time_s + timeout_s
            if self._scheduled and self._scheduled[0][0] <= until:
                until, _, action = heapq.heappop(self._scheduled)
                self.time_s = max(self.time_s, until)
                action()
            else:
                assert until < inf, "the loop waits for something that never happens"
                self.time_s = until
        self._is_called = False


@dataclass
class ScriptedEngine:
    """Answers each request with the script's text for (session, turn), cut to max_new."""

    script: Callable[[str, int], str]
    iteration: int = 0
    requests: list[GenerateRequest] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    waiting: list[GenerateRequest] = field(default_factory=list)
    aborted: list[Completion] = field(default_factory=list)
    num_turns: dict[str, int] = field(default_factory=dict)
    computes: bool = True
    recovery: Recovery = Recovery.GONE
    version: int = 0
    wake: Callable[[], None] = field(default=lambda: None)

    def submit(self, request: GenerateRequest) -> None:
        if request.session in [one.session for one in self.waiting]:
            raise ValueError(f"session {request.session!r}: already has a request in flight")
        # A copy: the loop keeps using its list.
        self.requests.append(
            GenerateRequest(
                ids=list(request.ids),
                max_new=request.max_new,
                seed=request.seed,
                stop_ids=request.stop_ids,
                session=request.session,
                policy_version=request.policy_version,
                temperature=request.temperature,
                top_p=request.top_p,
            )
        )
        self.waiting.append(request)

    def advance(self) -> list[Completion]:
        self.iteration += 1
        done, self.waiting = self.waiting, []
        aborted, self.aborted = self.aborted, []
        return sorted(aborted + [self._complete(one) for one in done], key=lambda one: one.session)

    def _complete(self, request: GenerateRequest) -> Completion:
        turn = self.num_turns.get(request.session, 0)
        self.num_turns[request.session] = turn + 1
        ids = sampled(self.script(request.session, turn))
        cut = len(ids) > request.max_new
        ids = ids[: request.max_new]
        return Completion(
            session=request.session,
            ids=ids,
            logprobs=[-0.01 * (place + 1) for place in range(len(ids))],
            finish=Finish.LENGTH if cut else Finish.STOP,
            policy_version=self.version,
        )

    def report(self) -> EngineReport:
        return EngineReport(
            engine=0, t=0.0, free_kv_tokens=1, capacity_tokens=1, running=0, waiting=0, preemptions=0
        )

    def abort(self, session: str) -> None:
        self.calls.append(f"abort {session}")
        for request in [one for one in self.waiting if one.session == session]:
            self.waiting.remove(request)
            ended = Completion(
                session=session, ids=[], logprobs=[], finish=Finish.ABORTED, policy_version=self.version
            )
            self.aborted.append(ended)
            self.wake()

    def release(self, session: str) -> None:
        self.calls.append(f"release {session}")

    def take_weights(self, source: object, version: int) -> None:
        self.calls.append(f"take_weights {version}")
        self.version = version

    def call_when_done(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def close(self) -> None:
        self.calls.append("close")


@dataclass
class TimedEngine(ScriptedEngine):
    """Works by itself: each turn takes `turn_s` on the clock.

    Every call from `dies_at_s` on raises, until `back_at_s` if one has raised before.
    """

    clock: FakeWake = field(default_factory=FakeWake)
    turn_s: float = 1.0
    dies_at_s: float = inf
    back_at_s: float = inf
    computes: bool = False
    ended: list[Completion] = field(default_factory=list)

    def submit(self, request: GenerateRequest) -> None:
        self._check()
        super().submit(request)
        self.clock.at(self.clock.now() + self.turn_s, lambda: self._end(request))

    def _end(self, request: GenerateRequest) -> None:
        if self.clock.now() < self.dies_at_s and any(one is request for one in self.waiting):
            self.waiting = [one for one in self.waiting if one is not request]
            self.ended.append(self._complete(request))
        self.wake()

    def _check(self) -> None:
        if self.clock.now() >= self.dies_at_s:
            if self.recovery is Recovery.GONE and self.back_at_s < inf:
                self.recovery = Recovery.RESTARTING
                self.clock.at(self.back_at_s, self._return)
            raise ConnectionError("the engine is gone")

    def _return(self) -> None:
        self.waiting, self.ended, self.dies_at_s = [], [], inf
        self.recovery = Recovery.BACK
        self.wake()

    def advance(self) -> list[Completion]:
        self._check()
        found, self.ended, self.aborted = [*self.aborted, *self.ended], [], []
        return sorted(found, key=lambda one: one.session)


class AdmitAll:
    """A policy that sends every turn to the first engine at once."""

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        return [Assignment(session=arrival.session, engine=0)]

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        """No state to update."""

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        return []

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []


@dataclass
class ScriptedTool:
    """Answers each call `after_s` on the clock; statuses are taken from the list, then ok."""

    stdout: str = "4"
    statuses: list[Status] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    wake: FakeWake = field(default_factory=FakeWake)
    after_s: float = 0.0

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        self.calls.append(call)
        status = self.statuses.pop(0) if self.statuses else Status.OK
        future: Future[ToolResult] = Future()
        result = ToolResult(id=call.id, status=status, stdout=self.stdout)
        if self.after_s:
            self.wake.at(self.wake.now() + self.after_s, lambda: future.set_result(result))
        else:
            future.set_result(result)
        return future

    def close_session(self, name: str) -> None:
        """Sessions hold no state."""


def a_loop(
    engine: ScriptedEngine, tool: Tool | None = None, *, max_response: int = 2000, max_turns: int = 3
) -> RolloutLoop:
    tool = tool or ScriptedTool()
    return RolloutLoop(
        engines=[engine],
        policy=AdmitAll(),
        episodes=ToolEpisodes(tool=tool, chat=ChatFormat(system="brief", tool_name=TOOL)),
        wake=tool.wake if isinstance(tool, ScriptedTool) else Wake(),
        codec=CharCodec(),
        settings=RolloutSettings(
            run="r",
            checkpoint="rl1",
            benchmark="rl1",
            max_prompt=500,
            max_response=max_response,
            max_turns=max_turns,
            temperature=1.0,
            top_p=1.0,
            seed=7,
            policy_version=3,
            limits=Limits(wall_s=20.0),
            rejoin_iterations=2,
        ),
    )


def roll(
    engine: ScriptedEngine,
    tool: ScriptedTool | None = None,
    *,
    num_samples: int = 1,
    max_response: int = 2000,
    max_turns: int = 3,
) -> list[Rollout]:
    """Rollouts of one problem, in order of sample."""
    problem = Problem(id="p", prompt="what is 2 + 2?", answer="4")
    tasks = [Task(problem=problem, sample=sample, step=5) for sample in range(num_samples)]
    loop = a_loop(engine, tool, max_response=max_response, max_turns=max_turns)
    return sorted((t for t, _ in loop.run(tasks)), key=lambda t: t.sample)


def script(*turns: str) -> Callable[[str, int], str]:
    """The same turns for every session."""
    texts: Sequence[str] = turns
    return lambda session, turn: texts[turn]
