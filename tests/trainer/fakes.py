"""Hand-written stand-ins for engine, policy, tool and tokenizer, so that a rollout or a step runs without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from records.problem import Problem
from records.tool_call import Limits, Status, ToolCall, ToolResult
from records.trajectory import Rollout
from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, ChatFormat
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import RolloutSettings, Task
from trainer.scheduling.policy import Arrival, Assignment

END = 0
"""Id of the end-of-turn token."""
TWIN = 1000
"""Added to an id: another token of the same text, so that decoding and encoding again changes ids."""
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
    """Ids a policy might have sampled for the text: every second one the twin."""
    ids = CharCodec().encode(text)
    return [i if i == END or place % 2 else i + TWIN for place, i in enumerate(ids)]


@dataclass
class ScriptedEngine:
    """Answers each request with what the script says for (session, turn); cut to max_new."""

    script: Callable[[str, int], str]
    iteration: int = 0
    requests: list[GenerateRequest] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    waiting: list[GenerateRequest] = field(default_factory=list)
    num_turns: dict[str, int] = field(default_factory=dict)

    def submit(self, request: GenerateRequest) -> None:
        # A copy: the loop goes on with its own list.
        self.requests.append(
            GenerateRequest(
                ids=list(request.ids),
                max_new=request.max_new,
                seed=request.seed,
                stop_ids=request.stop_ids,
                session=request.session,
                policy_version=request.policy_version,
            )
        )
        self.waiting.append(request)

    def advance(self, timeout_s: float = 0.0) -> list[Completion]:
        self.iteration += 1
        done, self.waiting = self.waiting, []
        return [self._complete(request) for request in done]

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
            policy_version=request.policy_version,
        )

    def report(self) -> EngineReport:
        return EngineReport(
            engine=0, t=0.0, free_kv_tokens=1, capacity_tokens=1, running=0, waiting=0, preemptions=0
        )

    def abort(self, session: str) -> None:
        self.calls.append(f"abort {session}")

    def release(self, session: str) -> None:
        self.calls.append(f"release {session}")

    def load_weights(self, checkpoint: Path, version: int) -> None:
        self.calls.append(f"load_weights {version}")

    def load_state_dict(self, state: object, config: object, version: int) -> None:
        self.calls.append(f"load_state_dict {version}")

    def reset_prefix_cache(self) -> None:
        self.calls.append("reset_prefix_cache")


class AdmitAll:
    """A policy that sends every turn to the first engine at once."""

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        return [Assignment(session=arrival.session, engine=0)]

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []


class WatchedFuture(Future[ToolResult]):
    """Remembers how long the waiting side was ready to wait."""

    def __init__(self, waits_s: list[float | None]) -> None:
        super().__init__()
        self._waits_s = waits_s

    def result(self, timeout: float | None = None) -> ToolResult:
        self._waits_s.append(timeout)
        return super().result(timeout)


@dataclass
class ScriptedTool:
    """Answers each call at once; statuses are taken from the list, then ok."""

    stdout: str = "4"
    statuses: list[Status] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    waits_s: list[float | None] = field(default_factory=list)

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        self.calls.append(call)
        status = self.statuses.pop(0) if self.statuses else Status.OK
        future = WatchedFuture(self.waits_s)
        future.set_result(ToolResult(id=call.id, status=status, stdout=self.stdout))
        return future

    def close_session(self, name: str) -> None:
        """Nothing is kept between calls."""


def a_loop(
    engine: ScriptedEngine, tool: ScriptedTool | None = None, *, max_response: int = 2000, max_turns: int = 3
) -> RolloutLoop:
    return RolloutLoop(
        engines=[engine],
        policy=AdmitAll(),
        tool=tool or ScriptedTool(),
        chat=ChatFormat(system="brief", tool_name=TOOL),
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
