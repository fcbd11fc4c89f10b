"""`Episode`: what opens a rollout, reads each turn of the model and replies.

The rollout loop drives every kind of episode: a tool (`trainer.rollout.tool_episode`), or a script of a benchmark
(`evaluation.conversations.script_episode`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from records.tool_call import ToolResult
from records.trajectory import CallKind, StopReason
from trainer.rollout.chat_text import ChatText
from trainer.rollout.draft import RolloutDraft
from trainer.rollout.wake import Wake


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutClock:
    """Clock-dependent values, separate from rollouts, which repeat bit for bit."""

    tool_s: float = 0.0
    """Wall seconds from a call's submission until its result was used, summed over calls. In a deterministic run they
    include the decode iterations before the rejoin."""
    cpu_s: float = 0.0
    """CPU seconds of the calls, summed."""
    queue_s: float = 0.0
    num_retries: int = 0
    num_near_limit: int = 0
    """Calls so near a time limit that the clock may have decided their result."""
    num_restarts: int = 0
    """Turns started again because their engine was lost."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The rollout ends here."""

    stop: StopReason
    detail: str = ""
    """Cause of the loss, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The text that the model reads between two of its turns."""

    text: ChatText
    result: ToolResult | None = None
    """Result of the call that the turn made; None without a call that ran."""


class PendingReply(Protocol):
    """A reply in preparation; only the thread of the loop calls it."""

    def poll(self) -> Reply | Ended | None:
        """Return the reply, or the end of the rollout if the reply is lost; None while neither is known."""
        ...

    @property
    def timer(self) -> float:
        """Time, on the clock of `Wake`, at which the loop must call `poll` even without an event."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRead:
    """An episode's reading of a turn."""

    then: Ended | PendingReply
    call: CallKind = CallKind.NONE
    num_extra_calls: int = 0
    code: str | None = None
    """Program of the call; None without a call."""


class Episode(Protocol):
    """The counterpart of the model in one rollout."""

    @property
    def min_room(self) -> int:
        """Tokens of `max_prompt + max_response` that the opening must leave, up to `max_response`."""
        ...

    @property
    def clock(self) -> RolloutClock:
        """Cost of the replies so far."""
        ...

    def opening(self) -> ChatText:
        """Text before the first sampled token."""
        ...

    def read(self, text: str) -> TurnRead:
        """Read a turn that the model ended, including its end-of-turn mark."""
        ...

    def close(self) -> None:
        """Free what the episode holds; the loop calls it once per rollout."""
        ...


class Episodes(Protocol):
    """Starts the episode of each rollout."""

    def begin(self, draft: RolloutDraft, wake: Wake) -> Episode:
        """Start the episode of a draft without tokens; it calls `wake` when a reply may be present."""
        ...
