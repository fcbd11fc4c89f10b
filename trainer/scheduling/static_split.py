"""`StaticSplitPolicy`: a baseline that fixes each rollout's engine in advance (single-program trainers, verl 0.2)."""

from __future__ import annotations

from random import Random

from trainer.engines.requests import EngineReport
from trainer.scheduling.policy import Arrival, Assignment


class StaticSplitPolicy:
    """Distributes rollouts evenly and never moves one; an engine queues what it cannot hold.

    Args:
        num_engines: number of engines.
        together: assign whole groups, so siblings share an engine; otherwise each run of `num_engines` arrivals
            goes out in an order drawn from `seed`.
        seed: seed of the shuffle.
    """

    def __init__(self, num_engines: int, *, together: bool, seed: int = 0) -> None:
        self._engines, self._together = list(range(num_engines)), together
        self._rng = Random(seed)
        self._deck: list[int] = []
        self._engine_of: dict[str, int] = {}
        self._engine_of_group: dict[str, int] = {}

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        if arrival.session not in self._engine_of:
            self._engine_of[arrival.session] = self._deal(arrival.group)
        return [Assignment(session=arrival.session, engine=self._engine_of[arrival.session])]

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return []

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        self._engines.remove(engine)
        self._deck = [one for one in self._deck if one != engine]
        self._engine_of = {name: one for name, one in self._engine_of.items() if one != engine}
        self._engine_of_group = {name: one for name, one in self._engine_of_group.items() if one != engine}

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        self._engines = sorted([*self._engines, engine])
        return []

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        self._engine_of.pop(session, None)
        return []

    def _deal(self, group: str) -> int:
        if self._together:
            next_engine = self._engines[len(self._engine_of_group) % len(self._engines)]
            return self._engine_of_group.setdefault(group, next_engine)
        if not self._deck:
            self._deck = list(self._engines)
            self._rng.shuffle(self._deck)
        return self._deck.pop()
