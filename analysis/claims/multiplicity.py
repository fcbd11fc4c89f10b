"""`holm` and `holm_confidence`: adjusted p values, and intervals that agree with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p values, in the order given, for the declared primary family.

    Equal to statsmodels' `multipletests`, which collects all garbage at each call: a second for the claims of a run.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]  # .01*3, then max(.03*2, .03), then max(.04, .06)
    [0.03, 0.06, 0.06]
    >>> holm([])
    []
    """
    p, order = np.asarray(p_values, float), np.argsort(p_values)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted.tolist()


def holm_confidence(p_values: Sequence[float], alpha: float = 0.05) -> list[float]:
    """Return the confidence level of each interval at which 'off 0' agrees with Holm's test.

    The j-th smallest p of m is tested at alpha / (m - j + 1), and testing stops at the first failure; later ones keep
    the level of the failed one.

    >>> [round(level, 4) for level in holm_confidence([0.001, 0.04, 0.9])]  # .05/3, .05/2 fails, .05/2
    [0.9833, 0.975, 0.975]
    """
    m = len(p_values)
    levels = [0.0] * m
    stopped: float | None = None
    for rank, index in enumerate(sorted(range(m), key=lambda i: (p_values[i], i))):
        level = alpha / (m - rank) if stopped is None else stopped
        if p_values[index] > level:
            stopped = level
        levels[index] = 1 - level
    return levels
