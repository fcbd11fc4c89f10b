"""The rollout loop: tasks in, rollouts out; tools run while the engines go on decoding.

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

from records.seeds import derive_seed
from records.tool_call import Status, ToolCall, ToolResult
from records.trajectory import CallKind, Rollout, StopReason
from sandbox import is_near_limit
from trainer.engines.protocol import Engine
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, ChatFormat, Codec, ParsedTurn, response_text
from trainer.rollout.draft import RolloutDraft
from trainer.rollout.task import RolloutSettings, Task
from trainer.scheduling.policy import Arrival, Assignment, Policy


class Tool(Protocol):
    """Runs calls in the background; the sandbox client is one."""

    def submit(self, call: ToolCall) -> Future[ToolResult]: ...

    def close_session(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutClock:
    """What depended on the clock; kept apart so that rollouts repeat bit for bit."""

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

    draft: RolloutDraft
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

    @property
    def session(self) -> str:
        return self.draft.session

    @property
    def clock(self) -> RolloutClock:
        return RolloutClock(
            tool_s=self.tool_s,
            cpu_s=self.cpu_s,
            queue_s=self.queue_s,
            num_retries=self.num_retries,
            num_near_limit=self.num_near_limit,
        )


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

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Rollout, RolloutClock]]:
        """Yield each task's rollout as it ends. Order is repeatable in deterministic runs."""
        for task in tasks:
            unfit = self._begin(RolloutDraft.of(task, self.settings))
            if unfit is not None:
                yield unfit, _NO_CLOCK
        while self._live:
            for live in self._returning():
                yield from self._finish_if_ended(self._rejoin(live), live)
            for completion in self._advance_engines():
                live = self._live[completion.session]
                yield from self._finish_if_ended(self._end_turn(live, completion), live)

    # --- one rollout ---------------------------------------------------------------------------------------

    def _begin(self, draft: RolloutDraft) -> Rollout | None:
        """Admit a rollout; returns it ended where its prompt is longer than the model can take: it is never cut."""
        ids = self.codec.encode(self.chat.prompt(draft.task.problem.prompt))
        if len(ids) > self.settings.max_prompt:
            return draft.end(StopReason.CONTEXT, "prompt does not fit")
        draft.open(ids)
        if draft.session in self._live:
            raise ValueError(
                f"two rollouts are called {draft.session}; problem ids must be unique within a batch"
            )
        live = _Live(draft=draft)
        self._live[draft.session] = live
        self._arrive(live, first=True)
        return None

    def _arrive(self, live: _Live, *, first: bool) -> None:
        arrival = Arrival(
            session=live.session,
            group=live.draft.task.problem.id,
            context_tokens=len(live.draft.ids),
            max_new=self.settings.max_response - live.draft.response_len,
            first=first,
        )
        self._assign(self.policy.on_arrive(arrival, float(self.cycle)))

    def _assign(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            draft = self._live[assignment.session].draft
            self._decoding[assignment.session] = assignment.engine
            self.engines[assignment.engine].submit(
                GenerateRequest(
                    ids=draft.ids,
                    max_new=self.settings.max_response - draft.response_len,
                    seed=draft.turn_seed,
                    stop_ids=(self._turn_end_id,),
                    session=assignment.session,
                    policy_version=self.settings.policy_version,
                )
            )

    def _end_turn(self, live: _Live, completion: Completion) -> Rollout | None:
        """Append what was sampled and decide what follows; returns the rollout where it ended."""
        draft = live.draft
        stopped = completion.finish is Finish.STOP
        text = self.codec.decode(completion.ids)
        parsed = self.chat.parse(text) if stopped else ParsedTurn(call=CallKind.NONE)
        draft.add_turn(
            completion.ids,
            completion.logprobs,
            text,
            call=parsed.call,
            num_extra_calls=parsed.num_extra_calls,
            code=parsed.code or None,
        )
        if completion.finish is Finish.LENGTH:
            return draft.end(StopReason.LENGTH)
        if not stopped:
            return draft.end(StopReason.ABORTED, "engine")
        if parsed.call is CallKind.NONE:
            return draft.end(StopReason.ANSWER)
        if len(draft.turns) >= self.settings.max_turns:
            return draft.end(StopReason.MAX_TURNS)
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
                seed=derive_seed(live.draft.seed, "call", live.num_calls),
            )
            live.future, live.submitted_at = self.tool.submit(live.call), time.monotonic()
        self._away[live.session] = live
        self._assign(self.policy.on_turn_end(live.session, float(self.cycle), len(live.draft.ids)))

    def _rejoin(self, live: _Live) -> Rollout | None:
        """Show the model the result of its call; returns the rollout where it ended."""
        draft, parsed = live.draft, live.parsed
        assert parsed is not None
        result = self._result_of(live)
        if result is not None and result.status.is_ours:
            return draft.end(StopReason.ABORTED, f"tool: {result.status}")
        if result is not None:
            draft.set_result(result)
        suffix = self.codec.encode(
            self.chat.tool_response(response_text(parsed, result, self.chat.response_chars))
        )
        if draft.response_len + len(suffix) >= self.settings.max_response:
            return draft.end(StopReason.CONTEXT)
        draft.show(suffix)
        self._arrive(live, first=False)
        return None

    def _result_of(self, live: _Live) -> ToolResult | None:
        """Wait for the call. A call that the infrastructure lost is retried, except in a lost session."""
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

    def _finish_if_ended(self, ended: Rollout | None, live: _Live) -> Iterator[tuple[Rollout, RolloutClock]]:
        if ended is None:
            return
        del self._live[live.session]
        for engine in self.engines:
            engine.release(live.session)
        if self.chat.session and live.num_calls:
            self.tool.close_session(live.session)
        self._assign(self.policy.on_finish(live.session, float(self.cycle), len(ended.ids)))
        yield ended, live.clock

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
            # The policy sees the loop's time only, so that a repeated run repeats its decisions.
            self._assign(self.policy.on_report(replace(engine.report(), t=float(self.cycle))))
        return completions


TOOL_DEADLINE_S = 120.0
"""Waiting for a result beyond the call's own wall limit; queueing counts into it."""
_NO_CLOCK = RolloutClock(tool_s=0.0, cpu_s=0.0, queue_s=0.0, num_retries=0)
