"""`ToolEpisode`: a problem, the calls that the model makes, and their results (paper section 2.1).

A call lost by the infrastructure is retried after a pause, while other rollouts continue; a lost session never is.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf

from records.seeds import derive_seed
from records.tool_call import Status, ToolCall, ToolResult
from records.trajectory import CallKind, StopReason
from sandbox import is_near_limit
from trainer.rollout.chat import ChatFormat, ParsedTurn, response_text
from trainer.rollout.chat_text import ChatText
from trainer.rollout.draft import RolloutDraft
from trainer.rollout.episode import Ended, Reply, RolloutClock, TurnRead
from trainer.rollout.tool import Tool
from trainer.rollout.wake import Wake

TOOL_DEADLINE_S = 120.0
"""Wait for a result beyond the call's own wall limit; it includes queueing."""
RETRY_PAUSE_S = 0.05
"""Seconds before a lost call is retried; they double with each try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEpisodes:
    """Starts rollouts of the agentic prompt, which share one tool."""

    tool: Tool
    chat: ChatFormat

    def begin(self, draft: RolloutDraft, wake: Wake) -> ToolEpisode:
        return ToolEpisode(tool=self.tool, chat=self.chat, draft=draft, wake=wake)


@dataclass(slots=True, kw_only=True)
class ToolEpisode:
    """One rollout with the tool."""

    tool: Tool
    chat: ChatFormat
    draft: RolloutDraft
    wake: Wake
    calls: list[SubmittedCall] = field(default_factory=list)

    @property
    def min_room(self) -> int:
        """The whole response budget: a prompt takes nothing of it."""
        return self.draft.settings.max_response

    @property
    def clock(self) -> RolloutClock:
        return RolloutClock(
            tool_s=sum(call.tool_s for call in self.calls),
            cpu_s=sum(call.cpu_s for call in self.calls),
            queue_s=sum(call.queue_s for call in self.calls),
            num_retries=sum(call.num_retries for call in self.calls),
            num_near_limit=sum(call.num_near_limit for call in self.calls),
        )

    def opening(self) -> ChatText:
        return self.chat.prompt(self.draft.task.problem.prompt)

    def read(self, text: str) -> TurnRead:
        """Find the call of the turn and submit it. The call of the last allowed turn is not run."""
        parsed = self.chat.parse(text)
        return TurnRead(
            then=self._then(parsed),
            call=parsed.call,
            num_extra_calls=parsed.num_extra_calls,
            code=parsed.code or None,
        )

    def close(self) -> None:
        if self.chat.session and self.calls:
            self.tool.close_session(self.draft.session)

    def _then(self, parsed: ParsedTurn) -> Ended | ToolReply:
        if parsed.call is CallKind.NONE:
            return Ended(StopReason.ANSWER)
        if len(self.draft.turns) >= self.draft.settings.max_turns:
            return Ended(StopReason.MAX_TURNS)
        if parsed.call is not CallKind.EXECUTED:
            return ToolReply(self.chat, parsed, None)
        call = SubmittedCall(
            tool=self.tool,
            call=self._call(parsed),
            num_tries=1 + self.draft.settings.num_retries,
            wake=self.wake,
        )
        self.calls.append(call)
        return ToolReply(self.chat, parsed, call)

    def _call(self, parsed: ParsedTurn) -> ToolCall:
        number = len(self.calls) + 1
        code, stdin = self.chat.program(parsed)
        return ToolCall(
            id=f"{self.draft.session}#{number}",
            code=code,
            stdin=stdin,
            session=self.draft.session if self.chat.session else None,
            limits=self.draft.settings.limits,
            seed=derive_seed(self.draft.seed, "call", number),
        )


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The tool response of one turn."""

    chat: ChatFormat
    parsed: ParsedTurn
    call: SubmittedCall | None
    """None if the turn holds no call that can run; the reply describes why."""

    @property
    def timer(self) -> float:
        return inf if self.call is None else self.call.timer

    def poll(self) -> Reply | Ended | None:
        result = None
        if self.call is not None:
            result = self.call.poll()
            if result is None:
                return None
            if result.status.is_infrastructure:
                return Ended(StopReason.ABORTED, f"tool: {result.status}")
        shown = response_text(self.parsed, result, self.chat.response_chars)
        return Reply(text=self.chat.tool_response(shown), result=result)


@dataclass(slots=True, kw_only=True)
class SubmittedCall:
    """A call, submitted again while the infrastructure loses it, at most `num_tries` times."""

    tool: Tool
    call: ToolCall
    num_tries: int
    wake: Wake
    timer: float = 0.0
    """Time at which the current try counts as lost, or at which the next one starts."""
    num_retries: int = 0
    num_near_limit: int = 0
    tool_s: float = 0.0
    cpu_s: float = 0.0
    queue_s: float = 0.0
    _future: Future[ToolResult] | None = None
    """Result of the current try; None between a lost try and the next."""
    _submitted_at: float = 0.0
    _result: ToolResult | None = None
    """The final result."""

    def __post_init__(self) -> None:
        self._submit()

    def poll(self) -> ToolResult | None:
        """Return the final result; None while there is none."""
        if self._result is not None:
            return self._result
        if self._future is None:
            if self.wake.now() < self.timer:
                return None
            self._submit()
        assert self._future is not None
        if self._future.done():
            result = self._future.result()
        elif self.wake.now() >= self.timer:
            result = ToolResult(id=self.call.id, status=Status.LOST)
        else:
            return None
        self._count(result)
        can_return = result.status.is_infrastructure and result.status is not Status.SESSION_LOST
        if can_return and self.num_retries + 1 < self.num_tries:
            self._future, self.timer = None, self.wake.now() + RETRY_PAUSE_S * 2**self.num_retries
            self.num_retries += 1
            return None
        self._result = result
        return result

    def _submit(self) -> None:
        self._submitted_at = self.wake.now()
        self.timer = self._submitted_at + TOOL_DEADLINE_S + self.call.limits.wall_s
        self._future = self.tool.submit(self.call)
        self._future.add_done_callback(lambda _: self.wake.call())

    def _count(self, result: ToolResult) -> None:
        self.tool_s += self.wake.now() - self._submitted_at
        self.cpu_s += result.cpu_s
        self.queue_s += result.queue_s
        self.num_near_limit += is_near_limit(result, self.call.limits)
