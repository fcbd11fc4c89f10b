"""`SimulatedClock`: the injected clock of a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SimulatedClock:
    """Clock that the event loop sets. Callable like `time.monotonic`.

    >>> clock = SimulatedClock()
    >>> clock.move_to(2.5)
    >>> clock()
    2.5
    """

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def move_to(self, t: float) -> None:
        """Advance to `t`; an earlier time is an error."""
        if t < self.now_s:
            raise ValueError(f"a clock at {self.now_s} s cannot go back to {t} s")
        self.now_s = t
