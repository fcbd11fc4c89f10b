"""Clocks that are injected, so that live and simulated runs share code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SimulatedClock:
    """Stands where the event loop puts it. Callable like `time.monotonic`.

    >>> clock = SimulatedClock()
    >>> clock.move_to(2.5)
    >>> clock()
    2.5
    """

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def move_to(self, t: float) -> None:
        """Go forward to `t`; never back."""
        if t < self.now_s:
            raise ValueError(f"a clock at {self.now_s} s cannot go back to {t} s")
        self.now_s = t
