"""`StickyPolicy`: a baseline that keeps a rollout with its cache; new ones go to the least loaded engine."""

from __future__ import annotations

import heapq

from trainer.engines.requests import EngineReport
from trainer.scheduling.policy import LOST, Arrival, Assignment, SchedulingPolicy


class StickyPolicy:
    """Load: rollouts from their first turn to their end; ties go to the lower number."""

    def __init__(self, num_engines: int) -> None:
        self._num_rollouts = [0] * num_engines
        # Entries are (rollouts, engine); an entry that disagrees with _num_rollouts is stale and skipped.
        self._fewest = [(0, engine) for engine in range(num_engines)]
        self._engine_of: dict[str, int] = {}

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        engine = self._engine_of.get(arrival.session)
        if engine is None:
            while self._fewest[0][0] != self._num_rollouts[self._fewest[0][1]]:
                heapq.heappop(self._fewest)
            engine = self._fewest[0][1]
            self._engine_of[arrival.session] = engine
            self._count(engine, 1)
        return [Assignment(session=arrival.session, engine=engine)]

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        self._engine_of = {name: one for name, one in self._engine_of.items() if one != engine}
        self._count(engine, LOST)

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        self._count(engine, -self._num_rollouts[engine])
        return []

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        engine = self._engine_of.pop(session, None)
        if engine is not None:
            self._count(engine, -1)
        return []

    def _count(self, engine: int, change: int) -> None:
        self._num_rollouts[engine] += change
        heapq.heappush(self._fewest, (self._num_rollouts[engine], engine))


POLICY = SchedulingPolicy(name="sticky", make=lambda capacities: StickyPolicy(len(capacities)))
