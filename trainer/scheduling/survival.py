"""`SurvivalCurve`: the distribution of response lengths, learned while rollouts run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NUM_BINS = 32
_PRIOR_ROLLOUTS = 4.0
"""Weight of the prior, in rollouts."""
_PRIOR_AT_LIMIT = 0.25
"""Prior share of rollouts that reach the limit; the others end uniformly below it."""
_PRIOR = 1.0 - (1.0 - _PRIOR_AT_LIMIT) * np.arange(NUM_BINS + 1) / NUM_BINS


class SurvivalCurve:
    """Probability that a response reaches a length; Kaplan-Meier on bins, which includes unfinished rollouts.

    Early in a batch only short rollouts have ended; an estimate from these alone would be far too small.

    >>> curve = SurvivalCurve(limit=3200)
    >>> [round(float(curve.at(np.array([x]))[0]), 2) for x in (0, 1600, 3200, 3201)]
    [1.0, 0.62, 0.25, 0.0]
    >>> curve.refit(ended=[800] * 50, running=np.array([1700.0] * 50))
    >>> [round(float(curve.at(np.array([x]))[0]), 1) for x in (700, 1600)]
    [1.0, 0.5]
    """

    def __init__(self, limit: int) -> None:
        self._width = limit / NUM_BINS
        self._edges = np.arange(NUM_BINS + 1) * self._width
        self._survival = _PRIOR

    @property
    def limit(self) -> float:
        return float(self._edges[-1])

    def at(self, length: NDArray[np.floating]) -> NDArray[np.float64]:
        """Probability of reaching `length` tokens; 0 beyond the limit."""
        return np.interp(length, self._edges, self._survival, right=0.0)

    def refit(self, *, ended: list[int], running: NDArray[np.float64]) -> None:
        """Learn from the lengths of ended rollouts and the lengths so far of running ones."""
        ended_E = np.asarray(ended, float)
        ends = np.bincount(self._bin(ended_E), minlength=NUM_BINS).astype(float)
        censored = np.bincount(self._bin(running), minlength=NUM_BINS)
        # At risk in a bin: every rollout that reached it; one inside it counts as half (actuarial estimate).
        reached = np.cumsum((ends + censored)[::-1])[::-1] - censored / 2
        # Rollouts cut at the limit did not end in the last bin.
        ends[-1] -= np.count_nonzero(ended_E >= self.limit)
        hazard = (ends - _PRIOR_ROLLOUTS * np.diff(_PRIOR)) / (reached + _PRIOR_ROLLOUTS * _PRIOR[:-1])
        self._survival = np.concatenate([[1.0], np.cumprod(1.0 - hazard)])

    def _bin(self, length: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.clip((length / self._width).astype(int), 0, NUM_BINS - 1)
