"""`RolloutLoop`: tasks in, rollouts out; replies are computed while the engines decode.

One loop drives any number of engines (`trainer.engines.protocol.Engine`) and any kind of episode
(`trainer.rollout.episode`): a problem with a tool, or a conversation that a benchmark scripts. A scheduling policy
assigns each rollout. A rollout that awaits a reply leaves its engine at once. In a deterministic run it rejoins exactly
`rejoin_iterations` cycles later, and the loop waits for a slower reply. Batches, and with them every rounding, then
depend on weights, seeds and replies only (docs/decisions.md). Otherwise a rollout rejoins as soon as its reply is
present.

The loop waits in one place (`trainer.rollout.wake`) for completions of all engines, replies and timers. An engine
whose call raises is lost: its rollouts start their turn again on another engine, from the ids they have. An engine that
restarts takes rollouts again; while all engines are lost, rollouts wait for the first one that is back.

Ids are appended as sampled and never re-tokenised (public faults B9, B10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from records.trajectory import Rollout, StopReason
from trainer.engines.protocol import Engine, Recovery
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, Codec
from trainer.rollout.draft import RolloutDraft
from trainer.rollout.episode import Ended, Episode, Episodes, PendingReply, Reply, RolloutClock
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.wake import Wake
from trainer.scheduling.policy import Arrival, Assignment, Policy


@dataclass(slots=True, kw_only=True)
class _Live:
    """An unfinished rollout."""

    draft: RolloutDraft
    episode: Episode
    engine: int | None = None
    """Engine that holds its cache."""
    reply: PendingReply | None = None
    """Reply in preparation; None while it decodes or waits for an engine."""
    answer: Reply | Ended | None = None
    """Result of `reply`."""
    due: int = 0
    """Cycle of the rejoin."""
    num_restarts: int = 0

    @property
    def session(self) -> str:
        return self.draft.session

    @property
    def clock(self) -> RolloutClock:
        return replace(self.episode.clock, num_restarts=self.num_restarts)

    def is_answered(self) -> bool:
        """Return whether the reply is present, or known to be lost."""
        if self.answer is None and self.reply is not None:
            self.answer = self.reply.poll()
        return self.answer is not None


@dataclass(slots=True, kw_only=True)
class RolloutLoop:
    """Drives engines, policy and episodes for batches of tasks."""

    engines: Sequence[Engine]
    policy: Policy
    episodes: Episodes
    codec: Codec
    settings: RolloutSettings
    engine_s: float = 0.0
    """Wall seconds in which an engine worked on a turn."""
    wait_s: float = 0.0
    """Wall seconds in which the loop waited for a reply and no engine worked."""
    cycle: int = 0
    wake: Wake = field(default_factory=Wake)
    lost: dict[int, Exception] = field(default_factory=dict)
    """Engines that raised, and their errors, until they are back."""
    _live: dict[str, _Live] = field(default_factory=dict)
    _away: dict[str, _Live] = field(default_factory=dict)
    """Rollouts that wait for their reply, in order of leaving."""
    _decoding: dict[str, int] = field(default_factory=dict)
    """Session -> engine, for turns in flight."""
    _stranded: list[_Live] = field(default_factory=list)
    """Rollouts whose turn arrived while all engines were lost."""
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

        Raises:
            ValueError: two tasks have the same problem and sample.
            Exception: the error of the last engine, when all are lost and none restarts.
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
                yield unfit, RolloutClock()
        while self._live:
            self._use_returned_engines()
            for live in self._returning():
                yield from self._finish_if_ended(self._rejoin(live), live)
            completions = self._advance_engines()
            for completion in completions:
                live = self._live[completion.session]
                yield from self._finish_if_ended(self._end_turn(live, completion), live)

    # --- one rollout ---------------------------------------------------------------------------------------

    def _begin(self, draft: RolloutDraft) -> Rollout | None:
        """Admit a rollout. Return it, ended, if its opening leaves too little room: an opening is never cut."""
        episode, settings = self.episodes.begin(draft, self.wake), self.settings
        ids = self.codec.encode(episode.opening())
        min_room = min(episode.min_room, settings.max_response)
        if len(ids) + min_room > settings.max_prompt + settings.max_response:
            episode.close()
            return draft.end(StopReason.CONTEXT, "prompt does not fit")
        draft.open(ids)
        if draft.session in self._live:
            raise ValueError(
                f"two rollouts are called {draft.session}; problem ids must be unique within a batch"
            )
        live = _Live(draft=draft, episode=episode)
        self._live[draft.session] = live
        self._arrive(live)
        return None

    def _arrive(self, live: _Live) -> None:
        if len(self.lost) == len(self.engines):
            self._stranded.append(live)
            return
        arrival = Arrival(
            session=live.session,
            group=live.draft.task.problem.id,
            context_tokens=len(live.draft.ids),
            max_new=live.draft.room,
        )
        self._assign(self.policy.on_arrive(arrival, self._t))

    def _assign(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            live, number = self._live[assignment.session], assignment.engine
            if number in self.lost:  # by an earlier one of these assignments
                self._arrive(live)
                continue
            if live.engine != number:
                self._release(live)
            live.engine = self._decoding[live.session] = number
            try:
                self.engines[number].submit(self._request(live.draft))
            except ValueError:  # the request is at fault, not the engine
                del self._decoding[live.session]
                raise
            except Exception as error:
                self._lose_engine(number, error)

    def _request(self, draft: RolloutDraft) -> GenerateRequest:
        """The next turn of a rollout."""
        return GenerateRequest(
            ids=draft.ids,
            max_new=draft.room,
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
        text = self.codec.decode(completion.ids)
        draft.add_turn(completion.ids, completion.logprobs, text)
        if completion.finish is Finish.LENGTH:
            return draft.end(StopReason.LENGTH)
        if completion.finish is not Finish.STOP:
            return draft.end(StopReason.ABORTED, "engine")
        read = live.episode.read(text)
        draft.set_call(read.call, num_extra_calls=read.num_extra_calls, code=read.code)
        if isinstance(read.then, Ended):
            return draft.end(read.then.stop, read.then.detail)
        self._leave(live, read.then)
        return None

    def _leave(self, live: _Live, reply: PendingReply) -> None:
        """Free the rollout's place on its engine until its reply is present."""
        live.reply, live.due = reply, self.cycle + (self.settings.rejoin_iterations or 0)
        self._away[live.session] = live
        self._assign(self.policy.on_turn_end(live.session, self._t, len(live.draft.ids)))

    def _rejoin(self, live: _Live) -> Rollout | None:
        """Append the reply for the model; return the rollout if it ended."""
        draft, answer = live.draft, live.answer
        assert answer is not None
        live.reply = live.answer = None
        if isinstance(answer, Ended):
            return draft.end(answer.stop, answer.detail)
        if answer.result is not None:
            draft.set_result(answer.result)
        shown = self.codec.encode(answer.text)
        if len(shown) >= draft.room:
            return draft.end(StopReason.CONTEXT)
        draft.show(shown)
        self._arrive(live)
        return None

    def _finish_if_ended(self, ended: Rollout | None, live: _Live) -> Iterator[tuple[Rollout, RolloutClock]]:
        if ended is None:
            return
        del self._live[live.session]
        self._release(live)
        live.episode.close()
        self._assign(self.policy.on_finish(live.session, self._t, len(ended.ids)))
        yield ended, live.clock

    def _release(self, live: _Live) -> None:
        """Drop the rollout's cache from the engine that holds it, if any."""
        if live.engine is None:
            return
        number, live.engine = live.engine, None
        try:
            self.engines[number].release(live.session)
        except Exception as error:
            self._lose_engine(number, error)

    # --- all rollouts --------------------------------------------------------------------------------------

    def _returning(self) -> list[_Live]:
        """Rollouts that rejoin in this cycle, in order of leaving."""
        if self.settings.rejoin_iterations is None:
            back = [live for live in self._away.values() if live.is_answered()]
        else:
            if not self._decoding and self._away:
                self.cycle = max(self.cycle, min(live.due for live in self._away.values()))
            back = [live for live in self._away.values() if live.due <= self.cycle]
            while pending := [live for live in back if not live.is_answered()]:
                self.wait_s += self._wait(pending)
        for live in back:
            del self._away[live.session]
        return back

    def _advance_engines(self) -> list[Completion]:
        """The completions of one cycle; without computation it waits for the next event."""
        if not self._decoding and not self._away:
            if self._live and not self._restarting():
                raise RuntimeError(f"the scheduler holds {len(self._live)} rollouts and admits none")
            if self._live:
                self.wait_s += self._wait([])
            return []
        if not self._decoding:
            if self.settings.rejoin_iterations is None:
                self.wait_s += self._wait(self._away.values())
            return []
        began = self.wake.now()
        self.cycle += 1
        completions = self._collect()
        self.engine_s += self.wake.now() - began
        self._report()
        computing = any(self.engines[number].computes for number in self._decoding.values())
        if self._decoding and not completions and not computing:
            self.engine_s += self._wait(self._away.values())
        return completions

    def _report(self) -> None:
        """Pass the reports of the engines to the policy."""
        for number, engine in enumerate(self.engines):
            if number in self.lost:
                continue
            try:
                report = engine.report()
            except Exception as error:
                self._lose_engine(number, error)
                continue
            if report is not None:
                # All policies use the loop's time: a repeated run then repeats its decisions.
                self._assign(self.policy.on_report(replace(report, t=self._t)))

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
                self._lose_engine(number, error)
        return completions

    def _lose_engine(self, number: int, error: Exception) -> None:
        """Start the turns of a lost engine on other engines; raise its error when no engine is left or restarts."""
        self.lost[number] = error
        self._require_engine(error)
        print(f"engine {number} is lost: {type(error).__name__}: {error}"[:300], flush=True)
        self.policy.on_engine_lost(number, self._t)
        for live in self._live.values():
            if live.engine == number:
                live.engine = None
        for session in [session for session, engine in self._decoding.items() if engine == number]:
            del self._decoding[session]
            self._live[session].num_restarts += 1
            self._arrive(self._live[session])

    def _use_returned_engines(self) -> None:
        """Let the policy use engines that have restarted, first of all for the stranded rollouts."""
        for number in [n for n in self.lost if self.engines[n].recovery is Recovery.BACK]:
            error = self.lost.pop(number)
            print(f"engine {number} is back after {type(error).__name__}", flush=True)
            self._assign(self.policy.on_engine_back(number, self._t))
        if self.lost:
            self._require_engine(next(reversed(self.lost.values())))
        stranded, self._stranded = self._stranded, []
        for live in stranded:
            self._arrive(live)

    def _restarting(self) -> bool:
        return any(self.engines[number].recovery is not Recovery.GONE for number in self.lost)

    def _require_engine(self, error: Exception) -> None:
        """Raise `error` if every engine is lost and none restarts."""
        if len(self.lost) == len(self.engines) and not self._restarting():
            raise error

    def _wait(self, away: Iterable[_Live]) -> float:
        """Wait for an event of an engine or an episode, or for the first timer; return the seconds."""
        began = self.wake.now()
        timer = min(
            (live.reply.timer for live in away if live.reply is not None and live.answer is None), default=inf
        )
        self.wake.wait(None if timer == inf else max(0.0, timer - began))
        return self.wake.now() - began

    def _abandon(self) -> None:
        """Abort the requests in flight when the caller stops early, so that the next batch finds idle engines."""
        for number, engine in enumerate(self.engines):
            if number in self.lost:
                continue
            flying = {session for session, n in self._decoding.items() if n == number}
            # An engine that raises here has nothing in flight any more.
            with suppress(Exception):
                for session in flying:
                    engine.abort(session)
                while flying:
                    ended = {completion.session for completion in engine.advance()}
                    flying -= ended
                    if not ended:
                        self._wait([])
                for live in self._live.values():
                    if live.engine == number:
                        engine.release(live.session)
        for live in self._live.values():
            live.episode.close()
