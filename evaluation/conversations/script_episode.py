"""`ScriptEpisode`: a conversation that a benchmark scripts, with functions, later user turns or a native prompt.

The rollout loop drives it as it drives a tool. Threads compute the replies. A reply that fails loses the sample, which
is not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from records.trajectory import StopReason
from trainer.rollout.chat_text import ChatText
from trainer.rollout.draft import RolloutDraft
from trainer.rollout.episode import Ended, Reply, RolloutClock, TurnRead
from trainer.rollout.task import Task
from trainer.rollout.wake import Wake

MIN_ROOM = 256
"""Tokens that an opening must leave for the answer. An opening, such as a function list, may exceed `max_prompt`."""
NUM_REPLIES_AT_ONCE = 8
"""Replies computed concurrently; each may wait for a sandbox."""
REPLY_DEADLINE_S = 1800.0
"""Seconds until a reply counts as lost. The sandbox limits each reply, but many may wait for a thread."""


class ScriptFailed(RuntimeError):
    """The script has no reply: the sample is lost and is not scored."""


class Script(Protocol):
    """The user and the services of one conversation."""

    def opening(self) -> ChatText:
        """Text before the first sampled token."""
        ...

    def add_turn(self, text: str) -> bool:
        """Add a finished turn, including its end-of-turn mark; return whether the conversation continues."""
        ...

    def reply(self) -> ChatText:
        """Return the text between the last sampled token and the next one. Runs in a thread; may raise ScriptFailed."""
        ...


@dataclass(frozen=True, slots=True)
class OneTurn:
    """A question and one answer."""

    prompt: ChatText

    def opening(self) -> ChatText:
        return self.prompt

    def add_turn(self, text: str) -> bool:
        return False

    def reply(self) -> ChatText:
        raise ScriptFailed("one turn has no reply")


@dataclass(frozen=True, slots=True)
class ScriptEpisodes:
    """Starts the conversations of a benchmark, which share a few threads."""

    script_of: Callable[[Task], Script]
    threads: Executor

    def begin(self, draft: RolloutDraft, wake: Wake) -> ScriptEpisode:
        return ScriptEpisode(script=self.script_of(draft.task), threads=self.threads, wake=wake)


@contextmanager
def open_scripts(script_of: Callable[[Task], Script]) -> Iterator[ScriptEpisodes]:
    """Yield the conversations of a benchmark with their threads; replies pending at the end are dropped."""
    threads = ThreadPoolExecutor(NUM_REPLIES_AT_ONCE, thread_name_prefix="reply")
    try:
        yield ScriptEpisodes(script_of, threads)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True, kw_only=True)
class ScriptEpisode:
    """One conversation."""

    script: Script
    threads: Executor
    wake: Wake
    min_room: int = MIN_ROOM
    clock: RolloutClock = field(default_factory=RolloutClock)

    def opening(self) -> ChatText:
        return self.script.opening()

    def read(self, text: str) -> TurnRead:
        """Add the turn to the script. A script that fails loses this sample only."""
        try:
            continues = self.script.add_turn(text)
        except Exception as error:
            return TurnRead(then=_lost(error))
        if not continues:
            return TurnRead(then=Ended(StopReason.ANSWER))
        future = self.threads.submit(self.script.reply)
        future.add_done_callback(lambda _: self.wake.call())
        return TurnRead(then=ScriptReply(future, self.wake, self.wake.now() + REPLY_DEADLINE_S))

    def close(self) -> None:
        """Nothing to free: all conversations share the threads."""


@dataclass(frozen=True, slots=True)
class ScriptReply:
    """A reply that a thread computes."""

    future: Future[ChatText]
    wake: Wake
    timer: float

    def poll(self) -> Reply | Ended | None:
        if not self.future.done():
            if self.wake.now() < self.timer:
                return None
            self.future.cancel()
            return Ended(StopReason.ABORTED, f"the script did not reply within {REPLY_DEADLINE_S:.0f} s")
        error = self.future.exception()
        return Reply(text=self.future.result()) if error is None else _lost(error)


def _lost(error: BaseException) -> Ended:
    """Return the end of a sample whose script failed; print an error that the script does not declare."""
    if isinstance(error, ScriptFailed):
        return Ended(StopReason.ABORTED, str(error)[:300])
    detail = f"script: {type(error).__name__}: {error}"[:300]
    print(f"a sample is lost: {detail}", flush=True)
    return Ended(StopReason.ABORTED, detail)
