"""`KvBudgetPolicy`: admits only as many rollouts to an engine as its key-value cache can hold.

Paper section 3.2: an engine runs K rollouts, estimated from its cache at the greatest length; the others wait in one
central queue. The reserve lasts from a rollout's first turn to its end, tool calls included, because its cache stays
on the engine. A turn that returns from its tool goes to that engine at once.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engines.requests import EngineReport
from trainer.scheduling.admission_queue import AdmissionQueue
from trainer.scheduling.policy import Arrival, Assignment

_MIN_FINISHED = 16
"""Ended rollouts required before their lengths are used."""


@dataclass(slots=True)
class _Rollout:
    engine: int
    reserved: int
    prompt: int
    context: int


class KvBudgetPolicy:
    """First come, first served, to the engine with the most unreserved tokens; the head of the queue never yields.

    Args:
        capacities: cached tokens that each engine can hold.
        quantile: None reserves context + max_new, so no engine ever overflows (the paper's rule). A share reserves
            what this quantile of the ended rollouts needed, and leaves rare overflows to the engine's preemption.
    """

    def __init__(self, capacities: Sequence[int], *, quantile: float | None = None) -> None:
        if not capacities or min(capacities) < 1:
            raise ValueError(
                f"capacities {list(capacities)}: need at least one engine, each of 1 token or more"
            )
        if quantile is not None and not 0 < quantile <= 1:
            raise ValueError(f"quantile {quantile}: must be above 0 and at most 1")
        self._capacities = list(capacities)
        self._unreserved = list(capacities)
        # Entries are (-unreserved, engine); an entry that disagrees with _unreserved is stale and skipped.
        self._most_room = [(-capacity, engine) for engine, capacity in enumerate(capacities)]
        heapq.heapify(self._most_room)
        self._quantile = quantile
        self._queue = AdmissionQueue()
        self._rollouts: dict[str, _Rollout] = {}
        self._grown: list[int] = []
        """Tokens that ended rollouts added to their prompts, ascending."""

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        rollout = self._rollouts.get(arrival.session)
        if rollout is not None:
            rollout.context = arrival.context_tokens
            return [Assignment(session=arrival.session, engine=rollout.engine)]
        worst = arrival.context_tokens + arrival.max_new
        if worst > max(self._capacities):
            raise ValueError(
                f"rollout {arrival.session!r} may need {worst} cached tokens, the largest engine holds "
                f"{max(self._capacities)}: lower the response budget or raise rollout.kv_tokens"
            )
        self._queue.push(arrival)
        return self._assign()

    def on_report(self, report: EngineReport) -> list[Assignment]:
        """Ignore the report: the budget counts future tokens, not the tokens cached now."""
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        """Keep the reserve: the cache stays on the engine."""
        if (
            context_tokens is not None and session in self._rollouts
        ):  # absent if its engine was lost in this cycle
            self._rollouts[session].context = context_tokens
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        """Drop the engine's rollouts; nothing fits on it from then on."""
        self._rollouts = {name: one for name, one in self._rollouts.items() if one.engine != engine}
        self._move(engine, -self._unreserved[engine])

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        """Give the engine its whole capacity again and admit what fits."""
        self._move(engine, self._capacities[engine])
        return self._assign()

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        """Release the reserve. Without `context_tokens` the length is that of the last arrival."""
        rollout = self._rollouts.pop(session, None)
        if rollout is None:
            self._queue.discard(session)
            return self._assign()
        insort(self._grown, max(rollout.context, context_tokens or 0) - rollout.prompt)
        self._move(rollout.engine, rollout.reserved)
        return self._assign()

    def _assign(self) -> list[Assignment]:
        assignments = []
        while self._queue:
            arrival = self._queue.head()
            need = self._reserve(arrival)
            engine = self._roomiest()
            if self._unreserved[engine] < need:
                break
            self._queue.pop()
            self._move(engine, -need)
            context = arrival.context_tokens
            self._rollouts[arrival.session] = _Rollout(
                engine=engine, reserved=need, prompt=context, context=context
            )
            assignments.append(Assignment(session=arrival.session, engine=engine))
        return assignments

    def _reserve(self, arrival: Arrival) -> int:
        """Tokens to reserve for a whole rollout."""
        grown = arrival.max_new
        if self._quantile is not None and len(self._grown) >= _MIN_FINISHED:
            rank = min(int(self._quantile * len(self._grown)), len(self._grown) - 1)
            grown = min(grown, self._grown[rank])
        return arrival.context_tokens + grown

    def _roomiest(self) -> int:
        while True:
            negative, engine = self._most_room[0]
            if -negative == self._unreserved[engine]:
                return engine
            heapq.heappop(self._most_room)

    def _move(self, engine: int, tokens: int) -> None:
        self._unreserved[engine] += tokens
        heapq.heappush(self._most_room, (-self._unreserved[engine], engine))
