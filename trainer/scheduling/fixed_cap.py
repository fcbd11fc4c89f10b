"""`FixedCapPolicy`: a baseline with a central queue and a hand-tuned cap of rollouts per engine."""

from __future__ import annotations

from trainer.engines.requests import EngineReport
from trainer.scheduling.admission_queue import AdmissionQueue
from trainer.scheduling.engine_loads import EngineLoads
from trainer.scheduling.policy import Arrival, Assignment


class FixedCapPolicy:
    """First come, first served, to the engine with the fewest rollouts; a rollout stays on its engine.

    Args:
        num_engines: engines to fill.
        cap: most rollouts per engine, from first turn to end.
    """

    def __init__(self, num_engines: int, *, cap: int) -> None:
        if cap < 1:
            raise ValueError(f"cap {cap}: must be 1 or more")
        self._cap = cap
        self._loads = EngineLoads(num_engines)
        self._engine_of: dict[str, int] = {}
        self._queue = AdmissionQueue()

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        engine = self._engine_of.get(arrival.session)
        if engine is not None:
            return [Assignment(session=arrival.session, engine=engine)]
        self._queue.push(arrival)
        return self._assign()

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        self._engine_of = {name: one for name, one in self._engine_of.items() if one != engine}
        self._loads.lose(engine)

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        self._loads.empty(engine)
        return self._assign()

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        engine = self._engine_of.pop(session, None)
        if engine is None:
            self._queue.discard(session)
        else:
            self._loads.add(engine, -1)
        return self._assign()

    def _assign(self) -> list[Assignment]:
        assignments = []
        while self._queue:
            count, engine = self._loads.least()
            if count >= self._cap:
                break
            session = self._queue.pop().session
            self._engine_of[session] = engine
            self._loads.add(engine, 1)
            assignments.append(Assignment(session=session, engine=engine))
        return assignments
