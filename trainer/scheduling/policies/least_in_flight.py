"""`LeastInFlightPolicy`: a baseline that sends each turn to the engine with the fewest turns in flight."""

from __future__ import annotations

from trainer.engines.requests import EngineReport
from trainer.scheduling.engine_loads import EngineLoads
from trainer.scheduling.policy import Arrival, Assignment, SchedulingPolicy


class LeastInFlightPolicy:
    """Counts turns, not tokens; ties go to the lower number. Without queue; a turn may leave its cache behind."""

    def __init__(self, num_engines: int) -> None:
        self._loads = EngineLoads(num_engines)
        self._engine_of: dict[str, int] = {}

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        _, engine = self._loads.least()
        self._engine_of[arrival.session] = engine
        self._loads.add(engine, 1)
        return [Assignment(session=arrival.session, engine=engine)]

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        engine = self._engine_of.pop(session, None)
        if engine is not None:  # None: the engine was lost in this cycle
            self._loads.add(engine, -1)
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        self._engine_of = {name: one for name, one in self._engine_of.items() if one != engine}
        self._loads.lose(engine)

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        self._loads.empty(engine)
        return []

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        engine = self._engine_of.pop(session, None)
        if engine is not None:
            self._loads.add(engine, -1)
        return []


POLICY = SchedulingPolicy(
    name="least_in_flight", make=lambda capacities: LeastInFlightPolicy(len(capacities))
)
