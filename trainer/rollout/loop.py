"""The rollout loop: problems in, trajectories out; tools run while the engines go on decoding.

One loop drives any number of engines (`trainer.engines.protocol.Engine`); a scheduling policy assigns each rollout.
A rollout that calls the tool leaves its engine at once. Deterministic runs let it rejoin exactly
`rejoin_iterations` cycles later, waiting for a slower tool, so that batches, and with them every rounding, depend
on weights, seeds and tool results only (design: determinism). Otherwise it rejoins as soon as its result is there.

Not here: weights, grading, selection. Ids are appended as sampled and never re-tokenised (public faults B9, B10).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import Protocol

from records.problem import Problem
from records.seeds import derive_seed
from records.tool_call import Limits, Status, ToolCall, ToolResult
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from sandbox.client.near_limit import is_near_limit
from trainer.engines.protocol import Engine
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, ChatFormat, Codec, ParsedTurn, response_text
from trainer.scheduling.policy import Arrival, Assignment, Policy


class Tool(Protocol):
    """Runs calls in the background; the sandbox client is one."""

    def submit(self, call: ToolCall) -> Future[ToolResult]: ...

    def close_session(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One rollout to make."""

    problem: Problem
    sample: int
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """What all rollouts of one batch share."""

    run: str
    checkpoint: str
    benchmark: str
    control: str = "none"
    max_prompt: int
    max_response: int
    max_turns: int
    temperature: float
    top_p: float
    seed: int
    policy_version: int
    limits: Limits
    rejoin_iterations: int | None
    """None: rejoin when the tool answers (not repeatable)."""
    num_retries: int = 2
    """Of a call that our side lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutClock:
    """What depended on the clock; kept apart so that trajectories repeat bit for bit."""

    tool_s: float
    """Wall seconds from a call's submission until its result was used, summed over calls: in a deterministic run the
    decode iterations of the rejoin are in it."""
    cpu_s: float
    """CPU seconds of the calls, summed."""
    queue_s: float
    num_retries: int
    num_near_limit: int = 0
    """Calls so near a time limit that the clock may have decided how they ended."""


@dataclass(slots=True, kw_only=True)
class _Live:
    """A rollout under way."""

    task: Task
    session: str
    trajectory: Trajectory
    parsed: ParsedTurn | None = None
    call: ToolCall | None = None
    future: Future[ToolResult] | None = None
    due: int = 0
    """Cycle of the rejoin."""
    submitted_at: float = 0.0
    num_calls: int = 0
    num_retries: int = 0
    num_near_limit: int = 0
    tool_s: float = 0.0
    cpu_s: float = 0.0
    queue_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class RolloutLoop:
    """Drives engines, policy and tool for batches of tasks."""

    engines: Sequence[Engine]
    policy: Policy
    tool: Tool
    chat: ChatFormat
    codec: Codec
    settings: RolloutSettings
    engine_s: float = 0.0
    """Wall seconds spent inside engines."""
    wait_s: float = 0.0
    """Wall seconds in which everything waited for a tool."""
    cycle: int = 0
    _live: dict[str, _Live] = field(default_factory=dict)
    _away: dict[str, _Live] = field(default_factory=dict)
    """Rollouts that wait for their tool, in order of leaving."""
    _decoding: dict[str, int] = field(default_factory=dict)
    """Session -> engine, for turns in flight."""
    _turn_end_id: int = -1

    def __post_init__(self) -> None:
        ids = self.codec.encode(TURN_END)
        if len(ids) != 1:
            raise ValueError(
                f"the tokenizer splits {TURN_END} into {len(ids)} tokens; it must be a special token"
            )
        self._turn_end_id = ids[0]

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Trajectory, RolloutClock]]:
        """Yield each task's trajectory as it ends. Order is repeatable in deterministic runs."""
        for task in tasks:
            live = self._begin(task)
            if live is None:
                yield self._unfit(task), _NO_CLOCK
        while self._live:
            for live in self._returning():
                yield from self._finish_if_ended(self._rejoin(live), live)
            for completion in self._advance_engines():
                live = self._live[completion.session]
                yield from self._finish_if_ended(self._end_turn(live, completion), live)

    # --- one rollout ---------------------------------------------------------------------------------------

    def _begin(self, task: Task) -> _Live | None:
        settings = self.settings
        ids = self.codec.encode(self.chat.prompt(task.problem.prompt))
        if len(ids) > settings.max_prompt:
            return None
        trajectory = self._empty_trajectory(task)
        trajectory.ids, trajectory.prompt_len = list(ids), len(ids)
        trajectory.mask, trajectory.logprob = [False] * len(ids), [0.0] * len(ids)
        session = f"{settings.benchmark}/{task.step}/{task.problem.id}/{task.sample}"
        if session in self._live:
            raise ValueError(f"two rollouts are called {session}; problem ids must be unique within a batch")
        live = _Live(task=task, session=session, trajectory=trajectory)
        self._live[session] = live
        self._arrive(live, first=True)
        return live

    def _empty_trajectory(self, task: Task) -> Trajectory:
        settings = self.settings
        return Trajectory(
            run=settings.run,
            checkpoint=settings.checkpoint,
            benchmark=settings.benchmark,
            problem=task.problem.id,
            sample=task.sample,
            step=task.step,
            control=settings.control,
            T=settings.temperature,
            top_p=settings.top_p,
            seed=derive_seed(settings.seed, settings.benchmark, task.step, task.problem.id, task.sample),
            policy_version=settings.policy_version,
        )

    def _unfit(self, task: Task) -> Trajectory:
        """A prompt longer than the model can take: nothing sampled, counted as such, never cut."""
        trajectory = self._empty_trajectory(task)
        trajectory.stop, trajectory.reason = StopReason.CONTEXT, "prompt does not fit"
        return trajectory

    def _arrive(self, live: _Live, *, first: bool) -> None:
        arrival = Arrival(
            session=live.session,
            group=live.task.problem.id,
            context_tokens=len(live.trajectory.ids),
            max_new=self.settings.max_response - live.trajectory.response_len,
            first=first,
        )
        self._assign(self.policy.on_arrive(arrival, float(self.cycle)))

    def _assign(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            trajectory = self._live[assignment.session].trajectory
            self._decoding[assignment.session] = assignment.engine
            self.engines[assignment.engine].submit(
                GenerateRequest(
                    ids=trajectory.ids,
                    max_new=self.settings.max_response - trajectory.response_len,
                    seed=derive_seed(trajectory.seed, len(trajectory.turns)),
                    stop_ids=(self._turn_end_id,),
                    session=assignment.session,
                    policy_version=self.settings.policy_version,
                )
            )

    def _end_turn(self, live: _Live, completion: Completion) -> StopReason | None:
        """Take in what was sampled; decide what follows. None: the rollout goes on."""
        trajectory = live.trajectory
        start = len(trajectory.ids)
        trajectory.ids += completion.ids
        trajectory.logprob += completion.logprobs
        trajectory.mask += [True] * len(completion.ids)
        text = self.codec.decode(completion.ids)
        stopped = completion.finish is Finish.STOP
        parsed = self.chat.parse(text) if stopped else ParsedTurn(call=CallKind.NONE)
        trajectory.turns.append(
            Turn(
                text=text,
                start=start,
                end=len(trajectory.ids),
                call=parsed.call,
                num_extra_calls=parsed.num_extra_calls,
                code=parsed.code or None,
            )
        )
        if completion.finish is Finish.LENGTH:
            return StopReason.LENGTH
        if not stopped:
            trajectory.reason = "engine"
            return StopReason.ABORTED
        if parsed.call is CallKind.NONE:
            return StopReason.ANSWER
        if len(trajectory.turns) >= self.settings.max_turns:
            return StopReason.MAX_TURNS
        self._leave(live, parsed)
        return None

    def _leave(self, live: _Live, parsed: ParsedTurn) -> None:
        """The rollout makes room on its engine while its call runs."""
        live.parsed, live.due = parsed, self.cycle + (self.settings.rejoin_iterations or 0)
        live.future = None
        if parsed.call is CallKind.EXECUTED:
            live.num_calls += 1
            code, stdin = self.chat.program(parsed)
            live.call = ToolCall(
                id=f"{live.session}#{live.num_calls}",
                code=code,
                stdin=stdin,
                session=live.session if self.chat.session else None,
                limits=self.settings.limits,
                seed=derive_seed(live.trajectory.seed, "call", live.num_calls),
            )
            live.future, live.submitted_at = self.tool.submit(live.call), time.monotonic()
        self._away[live.session] = live
        self._assign(self.policy.on_turn_end(live.session, float(self.cycle), len(live.trajectory.ids)))

    def _rejoin(self, live: _Live) -> StopReason | None:
        """Show the model what its call gave. None: it goes on."""
        trajectory, parsed = live.trajectory, live.parsed
        assert parsed is not None
        result = self._result_of(live)
        if result is not None and result.status.is_ours:
            trajectory.reason = f"tool: {result.status}"
            return StopReason.ABORTED
        if result is not None:
            trajectory.turns[-1] = replace(trajectory.turns[-1], result=result.without_clock())
        suffix = self.codec.encode(
            self.chat.tool_response(response_text(parsed, result, self.chat.response_chars))
        )
        if trajectory.response_len + len(suffix) >= self.settings.max_response:
            return StopReason.CONTEXT
        trajectory.ids += suffix
        trajectory.mask += [False] * len(suffix)
        trajectory.logprob += [0.0] * len(suffix)
        self._arrive(live, first=False)
        return None

    def _result_of(self, live: _Live) -> ToolResult | None:
        """Wait for the call; what our side lost is tried again, a lost session never is."""
        if live.future is None or live.call is None:
            return None
        result = self._wait(live)
        for _ in range(self.settings.num_retries):
            if not result.status.is_ours or result.status is Status.SESSION_LOST:
                break
            live.num_retries += 1
            live.future, live.submitted_at = self.tool.submit(live.call), time.monotonic()
            result = self._wait(live)
        return result

    def _wait(self, live: _Live) -> ToolResult:
        assert live.future is not None
        assert live.call is not None
        began = time.monotonic()
        try:
            result = live.future.result(timeout=TOOL_DEADLINE_S + live.call.limits.wall_s)
        except FutureTimeoutError:
            result = ToolResult(id=live.call.id, status=Status.LOST)
        self.wait_s += time.monotonic() - began
        live.tool_s += time.monotonic() - live.submitted_at
        live.cpu_s += result.cpu_s
        live.queue_s += result.queue_s
        live.num_near_limit += is_near_limit(result, live.call.limits)
        return result

    def _finish_if_ended(
        self, stop: StopReason | None, live: _Live
    ) -> Iterator[tuple[Trajectory, RolloutClock]]:
        if stop is None:
            return
        live.trajectory.stop = stop
        del self._live[live.session]
        for engine in self.engines:
            engine.release(live.session)
        if self.chat.session and live.num_calls:
            self.tool.close_session(live.session)
        self._assign(self.policy.on_finish(live.session, float(self.cycle), len(live.trajectory.ids)))
        yield (
            live.trajectory,
            RolloutClock(
                tool_s=live.tool_s,
                cpu_s=live.cpu_s,
                queue_s=live.queue_s,
                num_retries=live.num_retries,
                num_near_limit=live.num_near_limit,
            ),
        )

    # --- all rollouts --------------------------------------------------------------------------------------

    def _returning(self) -> list[_Live]:
        """Rollouts that rejoin in this cycle, in order of leaving."""
        if self.settings.rejoin_iterations is None:
            back = [live for live in self._away.values() if live.future is None or live.future.done()]
            if not back and self._away and not self._decoding:
                back = [next(iter(self._away.values()))]
        else:
            if not self._decoding and self._away:
                self.cycle = max(self.cycle, min(live.due for live in self._away.values()))
            back = [live for live in self._away.values() if live.due <= self.cycle]
        for live in back:
            del self._away[live.session]
        return back

    def _advance_engines(self) -> list[Completion]:
        if not self._decoding:
            if not self._away and self._live:
                raise RuntimeError(f"the scheduler holds {len(self._live)} rollouts and admits none")
            return []
        began = time.monotonic()
        self.cycle += 1
        completions = [completion for engine in self.engines for completion in engine.advance()]
        self.engine_s += time.monotonic() - began
        for completion in completions:
            del self._decoding[completion.session]
        for engine in self.engines:
            # All that the policy hears is in the loop's time, so that a repeated run repeats its decisions.
            self._assign(self.policy.on_report(replace(engine.report(), t=float(self.cycle))))
        return completions


TOOL_DEADLINE_S = 120.0
"""Waiting for a result beyond the call's own wall limit; queueing counts into it."""
_NO_CLOCK = RolloutClock(tool_s=0.0, cpu_s=0.0, queue_s=0.0, num_retries=0)
