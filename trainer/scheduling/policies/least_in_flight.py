"""`LeastInFlightPolicy`: a baseline that sends each turn to the engine with the fewest turns in flight."""

from __future__ import annotations

import heapq

from trainer.engines.requests import EngineReport
from trainer.scheduling.policy import LOST, Arrival, Assignment, SchedulingPolicy


class LeastInFlightPolicy:
    """Counts turns, not tokens; ties go to the lower number. Without queue; a turn may leave its cache behind."""

    def __init__(self, num_engines: int) -> None:
        self._num_in_flight = [0] * num_engines
        # Entries are (in flight, engine); an entry that disagrees with _num_in_flight is stale and skipped.
        self._least = [(0, engine) for engine in range(num_engines)]
        self._engine_of: dict[str, int] = {}

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        while self._least[0][0] != self._num_in_flight[self._least[0][1]]:
            heapq.heappop(self._least)
        engine = self._least[0][1]
        self._engine_of[arrival.session] = engine
        self._count(engine, 1)
        return [Assignment(session=arrival.session, engine=engine)]

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        engine = self._engine_of.pop(session, None)
        if engine is not None:  # None: the engine was lost in this cycle
            self._count(engine, -1)
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        self._engine_of = {name: one for name, one in self._engine_of.items() if one != engine}
        self._count(engine, LOST)

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        self._count(engine, -self._num_in_flight[engine])
        return []

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        engine = self._engine_of.pop(session, None)
        if engine is not None:
            self._count(engine, -1)
        return []

    def _count(self, engine: int, change: int) -> None:
        self._num_in_flight[engine] += change
        heapq.heappush(self._least, (self._num_in_flight[engine], engine))


POLICY = SchedulingPolicy(
    name="least_in_flight", make=lambda capacities: LeastInFlightPolicy(len(capacities))
)
