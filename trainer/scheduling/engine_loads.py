"""`EngineLoads`: how much each engine has, and which one has least."""

from __future__ import annotations

import heapq

from trainer.scheduling.policy import LOST


class EngineLoads:
    """Counts of turns or rollouts by engine; ties go to the lower number.

    >>> loads = EngineLoads(2)
    >>> loads.add(0, 1)
    >>> loads.least()
    (0, 1)
    >>> loads.lose(1)
    >>> loads.least()
    (1, 0)
    """

    def __init__(self, num_engines: int) -> None:
        self._loads = [0] * num_engines
        # Entries are (load, engine); an entry that disagrees with _loads is stale and skipped.
        self._heap = [(0, engine) for engine in range(num_engines)]

    def least(self) -> tuple[int, int]:
        """Load and number of the least loaded engine."""
        while self._heap[0][0] != self._loads[self._heap[0][1]]:
            heapq.heappop(self._heap)
        return self._heap[0]

    def add(self, engine: int, change: int) -> None:
        self._loads[engine] += change
        heapq.heappush(self._heap, (self._loads[engine], engine))

    def lose(self, engine: int) -> None:
        """Never the least loaded again, until `empty`."""
        self.add(engine, LOST)

    def empty(self, engine: int) -> None:
        self.add(engine, -self._loads[engine])
