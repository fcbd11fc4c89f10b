"""`RolloutLoop`: tasks in, rollouts out; tools run while the engines decode.

One loop drives any number of engines (`trainer.engines.protocol.Engine`); a scheduling policy assigns each rollout.
A rollout that calls the tool leaves its engine at once. In a deterministic run it rejoins exactly `rejoin_iterations`
cycles later, and the loop waits for a slower tool. Batches, and with them every rounding, then depend on weights, seeds
and tool results only (docs/decisions.md). Otherwise a rollout rejoins as soon as its result is present.

The loop waits in one place (`trainer.rollout.wake`) for completions of all engines, tool results and timers. An engine
whose call raises is lost: its rollouts start their turn again on another engine, from the ids they have.

Ids are appended as sampled and never re-tokenised (public faults B9, B10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
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
from trainer.rollout.wake import Wake
from trainer.scheduling.policy import Arrival, Assignment, Policy


class Tool(Protocol):
    """Runs calls in the background, such as the sandbox client."""

    def submit(self, call: ToolCall) -> Future[ToolResult]: ...

    def close_session(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutClock:
    """Clock-dependent values, separate from rollouts, which repeat bit for bit."""

    tool_s: float
    """Wall seconds from a call's submission until its result was used, summed over calls. In a deterministic run they
    include the decode iterations before the rejoin."""
    cpu_s: float
    """CPU seconds of the calls, summed."""
    queue_s: float
    num_retries: int
    num_near_limit: int = 0
    """Calls so near a time limit that the clock may have decided their result."""
    num_restarts: int = 0
    """Turns started again because their engine was lost."""


@dataclass(slots=True, kw_only=True)
class _Live:
    """An unfinished rollout."""

    draft: RolloutDraft
    parsed: ParsedTurn | None = None
    call: ToolCall | None = None
    future: Future[ToolResult] | None = None
    """Result of the current call; None between a lost call and its retry."""
    result: ToolResult | None = None
    engine: int | None = None
    """Engine that holds its cache."""
    due: int = 0
    """Cycle of the rejoin."""
    submitted_at: float = 0.0
    timer: float = 0.0
    """Time at which the current call counts as lost, or a lost one is retried."""
    num_calls: int = 0
    num_tries: int = 0
    """Number of tries of the current call."""
    num_retries: int = 0
    num_near_limit: int = 0
    num_restarts: int = 0
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
            num_restarts=self.num_restarts,
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
    """Wall seconds in which an engine worked on a turn."""
    wait_s: float = 0.0
    """Wall seconds in which the loop waited for a tool and no engine worked."""
    cycle: int = 0
    wake: Wake = field(default_factory=Wake)
    lost: dict[int, Exception] = field(default_factory=dict)
    """Engines that raised, and their errors."""
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

    @property
    def _t(self) -> float:
        """Time for policies: cycles in deterministic runs, else seconds."""
        return float(self.cycle) if self.settings.rejoin_iterations is not None else self.wake.now()

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Rollout, RolloutClock]]:
        """Yield each task's rollout as it ends. The order is repeatable in deterministic runs.

        Raises the error of the last engine when none is left.
        """
        for engine in self.engines:
            engine.call_when_done(self.wake.call)
        try:
            yield from self._run(tasks)
        finally:
            self._abandon()

    def _run(self, tasks: Sequence[Task]) -> Iterator[tuple[Rollout, RolloutClock]]:
        for task in tasks:
            unfit = self._begin(RolloutDraft.of(task, self.settings))
            if unfit is not None:
                yield unfit, _NO_CLOCK
        while self._live:
            for live in self._returning():
                yield from self._finish_if_ended(self._rejoin(live), live)
            completions = self._advance_engines()
            for completion in completions:
                live = self._live[completion.session]
                yield from self._finish_if_ended(self._end_turn(live, completion), live)

    # --- one rollout ---------------------------------------------------------------------------------------

    def _begin(self, draft: RolloutDraft) -> Rollout | None:
        """Admit a rollout. Returns it, ended, if its prompt exceeds the model's context: a prompt is never cut."""
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
        self._assign(self.policy.on_arrive(arrival, self._t))

    def _assign(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            live, number = self._live[assignment.session], assignment.engine
            if number in self.lost:  # by an earlier one of these assignments
                self._arrive(live, first=False)
                continue
            if live.engine not in (None, number):
                self.engines[live.engine].release(live.session)
            live.engine = self._decoding[live.session] = number
            try:
                self.engines[number].submit(self._request(live.draft))
            except ValueError:  # the request is at fault, not the engine
                del self._decoding[live.session]
                raise
            except Exception as error:
                self._lose(number, error)

    def _request(self, draft: RolloutDraft) -> GenerateRequest:
        """The next turn of a rollout."""
        return GenerateRequest(
            ids=draft.ids,
            max_new=self.settings.max_response - draft.response_len,
            seed=draft.turn_seed,
            stop_ids=(self._turn_end_id,),
            temperature=self.settings.temperature,
            top_p=self.settings.top_p,
            session=draft.session,
            policy_version=self.settings.policy_version,
        )

    def _end_turn(self, live: _Live, completion: Completion) -> Rollout | None:
        """Append the sampled tokens and decide the next action; return the rollout if it ended."""
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
        """Free the rollout's place on its engine while its call runs."""
        live.parsed, live.due = parsed, self.cycle + (self.settings.rejoin_iterations or 0)
        live.call = live.result = None
        live.num_tries = 0
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
            self._ask(live, live.call)
        self._away[live.session] = live
        self._assign(self.policy.on_turn_end(live.session, self._t, len(live.draft.ids)))

    def _ask(self, live: _Live, call: ToolCall) -> None:
        live.num_tries += 1
        live.submitted_at = self.wake.now()
        live.timer = live.submitted_at + TOOL_DEADLINE_S + call.limits.wall_s
        live.future = self.tool.submit(call)
        live.future.add_done_callback(lambda _: self.wake.call())

    def _rejoin(self, live: _Live) -> Rollout | None:
        """Append the result of the call for the model; return the rollout if it ended."""
        draft, parsed, result = live.draft, live.parsed, live.result
        assert parsed is not None
        if result is not None and result.status.is_infrastructure:
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

    def _is_answered(self, live: _Live) -> bool:
        """True once the call of the turn, if any, has its final result.

        A call lost by the infrastructure is retried after a pause; a lost session never is.
        """
        if live.call is None or live.result is not None:
            return True
        if live.future is None:
            if self.wake.now() < live.timer:
                return False
            self._ask(live, live.call)
        assert live.future is not None
        if live.future.done():
            result = live.future.result()
        elif self.wake.now() >= live.timer:
            result = ToolResult(id=live.call.id, status=Status.LOST)
        else:
            return False
        live.tool_s += self.wake.now() - live.submitted_at
        live.cpu_s += result.cpu_s
        live.queue_s += result.queue_s
        live.num_near_limit += is_near_limit(result, live.call.limits)
        can_return = result.status.is_infrastructure and result.status is not Status.SESSION_LOST
        if not can_return or live.num_tries > self.settings.num_retries:
            live.result = result
            return True
        live.num_retries += 1
        live.future, live.timer = None, self.wake.now() + RETRY_PAUSE_S * 2 ** (live.num_tries - 1)
        return False

    def _finish_if_ended(self, ended: Rollout | None, live: _Live) -> Iterator[tuple[Rollout, RolloutClock]]:
        if ended is None:
            return
        del self._live[live.session]
        if live.engine is not None:
            self.engines[live.engine].release(live.session)
        if self.chat.session and live.num_calls:
            self.tool.close_session(live.session)
        self._assign(self.policy.on_finish(live.session, self._t, len(ended.ids)))
        yield ended, live.clock

    # --- all rollouts --------------------------------------------------------------------------------------

    def _returning(self) -> list[_Live]:
        """Rollouts that rejoin in this cycle, in order of leaving."""
        if self.settings.rejoin_iterations is None:
            back = [live for live in self._away.values() if self._is_answered(live)]
        else:
            if not self._decoding and self._away:
                self.cycle = max(self.cycle, min(live.due for live in self._away.values()))
            back = [live for live in self._away.values() if live.due <= self.cycle]
            while pending := [live for live in back if not self._is_answered(live)]:
                self.wait_s += self._wait(pending)
        for live in back:
            del self._away[live.session]
        return back

    def _advance_engines(self) -> list[Completion]:
        """The completions of one cycle; without computation it waits for the next event."""
        if not self._decoding and not self._away:
            if self._live:
                raise RuntimeError(f"the scheduler holds {len(self._live)} rollouts and admits none")
            return []
        if not self._decoding:
            if self.settings.rejoin_iterations is None:
                self.wait_s += self._wait(self._away.values())
            return []
        began = self.wake.now()
        self.cycle += 1
        completions = self._collect()
        self.engine_s += self.wake.now() - began
        for number, engine in enumerate(self.engines):
            report = engine.report() if number not in self.lost else None
            if report is not None:
                # All policies use the loop's time: a repeated run then repeats its decisions.
                self._assign(self.policy.on_report(replace(report, t=self._t)))
        computing = any(self.engines[number].computes for number in self._decoding.values())
        if self._decoding and not completions and not computing:
            self.engine_s += self._wait(self._away.values())
        return completions

    def _collect(self) -> list[Completion]:
        """Advance each remaining engine; the turns of one that raises start again after all have advanced."""
        completions: list[Completion] = []
        failed: list[tuple[int, Exception]] = []
        for number, engine in enumerate(self.engines):
            if number not in self.lost:
                try:
                    completions += engine.advance()
                except Exception as error:
                    failed.append((number, error))
        for completion in completions:
            del self._decoding[completion.session]
        for number, error in failed:
            if number not in self.lost:
                self._lose(number, error)
        return completions

    def _lose(self, number: int, error: Exception) -> None:
        """Start the turns of a lost engine on other engines; raise its error when no engine is left."""
        self.lost[number] = error
        if len(self.lost) == len(self.engines):
            raise error
        print(f"engine {number} is lost: {type(error).__name__}: {error}"[:300], flush=True)
        self.policy.on_engine_lost(number, self._t)
        for live in self._live.values():
            if live.engine == number:
                live.engine = None
        for session in [session for session, engine in self._decoding.items() if engine == number]:
            del self._decoding[session]
            self._live[session].num_restarts += 1
            self._arrive(self._live[session], first=False)

    def _wait(self, away: Iterable[_Live]) -> float:
        """Wait for an event of an engine or a tool, or for the first timer; return the seconds."""
        began = self.wake.now()
        timers = [live.timer for live in away if live.call is not None and live.result is None]
        self.wake.wait(max(0.0, min(timers) - began) if timers else None)
        return self.wake.now() - began

    def _abandon(self) -> None:
        """Abort the requests in flight when the caller stops early, so that the next batch finds idle engines."""
        flying = {session: n for session, n in self._decoding.items() if n not in self.lost}
        for session, number in flying.items():
            self.engines[number].abort(session)
        while flying:
            ended = [done for number in set(flying.values()) for done in self.engines[number].advance()]
            for completion in ended:
                flying.pop(completion.session, None)
            if not ended:
                self._wait([])
        for live in self._live.values():
            if live.engine is not None and live.engine not in self.lost:
                self.engines[live.engine].release(live.session)


TOOL_DEADLINE_S = 120.0
"""Wait for a result beyond the call's own wall limit; it includes queueing."""
RETRY_PAUSE_S = 0.05
"""Seconds before a lost call is retried; they double with each try."""
_NO_CLOCK = RolloutClock(tool_s=0.0, cpu_s=0.0, queue_s=0.0, num_retries=0)
