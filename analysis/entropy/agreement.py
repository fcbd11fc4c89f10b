"""`cliffs_delta`, `jaccard`, `cohen_kappa`: effect sizes and agreement of sets and labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Return P(b > a) - P(b < a) over all pairs: an effect size in [-1, 1] without units.

    >>> cliffs_delta([1, 2], [3, 4]), cliffs_delta([1, 2], [1, 2])
    (1.0, 0.0)
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.size == 0 or y.size == 0:
        raise ValueError("an effect size needs values on both sides")
    u = stats.mannwhitneyu(y, x, method="asymptotic").statistic
    return float(2 * u / (x.size * y.size) - 1)


def jaccard(a: set[Hashable], b: set[Hashable]) -> float:
    """Return the shared part of two sets; two empty sets agree fully.

    >>> jaccard({1, 2, 3}, {2, 3, 4})
    0.5
    """
    union = a | b
    return len(a & b) / len(union) if union else 1.0


def cohen_kappa(a: Sequence[bool], b: Sequence[bool]) -> float:
    """Return the agreement of two labellings beyond chance: 1 is full agreement, 0 is chance.

    Two equal constant labellings give 0.

    >>> cohen_kappa([True, True, False, False], [True, False, False, False])
    0.5
    """
    x, y = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    if x.size == 0 or x.size != y.size:
        raise ValueError(f"{x.size} against {y.size} labels: need the same number, at least one")
    observed = float(np.mean(x == y))
    chance = float(x.mean() * y.mean() + (1 - x.mean()) * (1 - y.mean()))
    return 0.0 if chance == 1.0 else (observed - chance) / (1 - chance)
