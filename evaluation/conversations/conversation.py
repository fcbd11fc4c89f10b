"""`DialogueSampler`: conversations that a benchmark scripts, with functions, later user turns or a native prompt.

All conversations of a batch advance together: every open one gets one turn from the engine, then each script reads its
turn and replies. Batches therefore depend on weights, seeds and results only, as in the rollout loop, and no clock
decides a token. The sampler appends ids as sampled and never re-tokenises them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

from config.model import RolloutSection
from records.trajectory import Rollout, StopReason
from trainer.engines.protocol import Engine
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, Codec
from trainer.rollout.chat_text import ChatText
from trainer.rollout.draft import RolloutDraft
from trainer.rollout.loop import RolloutClock
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.wake import Wake
from trainer.scheduling.policies import scheduling_policy
from trainer.scheduling.policy import Arrival, Assignment, Policy

MIN_ROOM = 256
"""Tokens that an opening must leave for the answer. An opening, such as a function list, may exceed `max_prompt`."""
NUM_REPLIES_AT_ONCE = 8
"""Replies computed concurrently; each may wait for a sandbox."""


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


@dataclass(slots=True, kw_only=True)
class _Live:
    draft: RolloutDraft
    script: Script
    ended: Rollout | None = None

    @property
    def session(self) -> str:
        return self.draft.session


@dataclass(slots=True, kw_only=True)
class DialogueSampler:
    """Samples batches of conversations, as `trainer.rollout.sampler.Sampler` samples rollouts."""

    engine: Engine
    codec: Codec
    settings: RolloutSettings
    rollout: RolloutSection
    script_of: Callable[[Task], Script]

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Rollout, RolloutClock]]:
        """Yield each task's rollout; those that end in the same step come in order of admission.

        Raises:
            ValueError: two tasks have the same problem and sample.
        """
        (turn_end,) = self.codec.encode(TURN_END)
        policy = scheduling_policy(self.rollout.scheduler).make([self.rollout.kv_tokens])
        step = _Steps(self, policy, policy_version, turn_end)
        begun = [self._begin(task, policy_version) for task in tasks]
        for one in begun:
            if one.ended is not None:
                yield one.ended, _NO_CLOCK
        step.arrive([one for one in begun if one.ended is None])
        while step.live:
            for rollout in step.take():
                yield rollout, _NO_CLOCK

    def _begin(self, task: Task, policy_version: int) -> _Live:
        settings = replace(self.settings, policy_version=policy_version)
        one = _Live(draft=RolloutDraft.of(task, settings), script=self.script_of(task))
        ids = self.codec.encode(one.script.opening())
        if len(ids) + min(MIN_ROOM, settings.max_response) > settings.max_prompt + settings.max_response:
            one.ended = one.draft.end(StopReason.CONTEXT, "prompt does not fit")
        else:
            one.draft.open(ids)
        return one


@dataclass(slots=True)
class _Steps:
    """The conversations of one batch: those that wait for room, and those in progress."""

    sampler: DialogueSampler
    policy: Policy
    policy_version: int
    turn_end: int
    waiting: dict[str, _Live] = field(default_factory=dict)
    live: dict[str, _Live] = field(default_factory=dict)
    """Admitted, in order of admission."""

    def arrive(self, begun: Sequence[_Live]) -> None:
        for one in begun:
            if one.session in self.waiting or one.session in self.live:
                raise ValueError(f"two conversations are called {one.session}")
            self.waiting[one.session] = one
            self._admit(self.policy.on_arrive(self._arrival(one, first=True), 0.0))
        self._check()

    def take(self) -> list[Rollout]:
        """Sample one turn of every admitted conversation; return the rollouts that ended."""
        held = list(self.live.values())
        for one in held:
            self._request(one)
        self._decode({one.session: one for one in held})
        going = [one for one in held if one.ended is None]
        with ThreadPoolExecutor(NUM_REPLIES_AT_ONCE) as pool:
            for one, reply in zip(going, pool.map(_reply, going), strict=True):
                self._append(one, reply)
        ended = [self._finish(one, one.ended) for one in held if one.ended is not None]
        self._check()
        return ended

    def _check(self) -> None:
        if self.waiting and not self.live:
            raise RuntimeError(f"the scheduler holds {len(self.waiting)} conversations and admits none")

    def _arrival(self, one: _Live, *, first: bool) -> Arrival:
        return Arrival(
            session=one.session,
            group=one.draft.task.problem.id,
            context_tokens=len(one.draft.ids),
            max_new=self._room(one.draft),
            first=first,
        )

    def _room(self, draft: RolloutDraft) -> int:
        """Return the tokens left, within the response budget and within the context, which includes the prompt."""
        settings = self.sampler.settings
        context = settings.max_prompt + settings.max_response - len(draft.ids)
        return min(settings.max_response - draft.response_len, context)

    def _admit(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            if assignment.session in self.waiting:
                self.live[assignment.session] = self.waiting.pop(assignment.session)

    def _request(self, one: _Live) -> None:
        draft = one.draft
        if draft.turns:
            self._admit(self.policy.on_arrive(self._arrival(one, first=False), 0.0))
        self.sampler.engine.submit(
            GenerateRequest(
                ids=draft.ids,
                max_new=self._room(draft),
                seed=draft.turn_seed,
                stop_ids=(self.turn_end,),
                temperature=self.sampler.settings.temperature,
                top_p=self.sampler.settings.top_p,
                session=one.session,
                policy_version=self.policy_version,
            )
        )

    def _decode(self, asked: dict[str, _Live]) -> None:
        engine, wake = self.sampler.engine, Wake()
        engine.call_when_done(wake.call)
        while asked:
            completions = engine.advance()
            if not completions and not engine.computes:
                wake.wait(None)
            for completion in completions:
                one = asked.pop(completion.session)
                self._take(one, completion)
                self._admit(self.policy.on_turn_end(one.session, 0.0, len(one.draft.ids)))
            report = engine.report()
            if report is not None:
                # Policies receive time 0, so that no clock decides a batch.
                self._admit(self.policy.on_report(replace(report, t=0.0)))

    def _take(self, one: _Live, completion: Completion) -> None:
        text = self.sampler.codec.decode(completion.ids)
        one.draft.add_turn(completion.ids, completion.logprobs, text)
        if completion.finish is Finish.LENGTH:
            one.ended = one.draft.end(StopReason.LENGTH)
        elif completion.finish is not Finish.STOP:
            one.ended = one.draft.end(StopReason.ABORTED, "engine")
        elif not one.script.add_turn(text):
            one.ended = one.draft.end(StopReason.ANSWER)

    def _append(self, one: _Live, reply: ChatText | ScriptFailed) -> None:
        if isinstance(reply, ScriptFailed):
            one.ended = one.draft.end(StopReason.ABORTED, str(reply)[:300])
            return
        ids = self.sampler.codec.encode(reply)
        if len(ids) >= self._room(one.draft):
            one.ended = one.draft.end(StopReason.CONTEXT)
            return
        one.draft.show(ids)

    def _finish(self, one: _Live, ended: Rollout) -> Rollout:
        del self.live[one.session]
        self.sampler.engine.release(one.session)
        self._admit(self.policy.on_finish(one.session, 0.0, len(ended.ids)))
        return ended


def _reply(one: _Live) -> ChatText | ScriptFailed:
    try:
        return one.script.reply()
    except ScriptFailed as error:
        return error


_NO_CLOCK = RolloutClock(tool_s=0.0, cpu_s=0.0, queue_s=0.0, num_retries=0)
