"""`difference` and others: arithmetic on published numbers: differences, sums, granularity, implied shares."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from analysis.claims import endpoints as e
from analysis.inputs.reference import Reference
from records.errors import ConfigError

_HALF = 0.5 + 1e-9
"""Half a unit of the last printed digit, and rounding."""


def cell(reference: Reference, where: e.Cell) -> float:
    """A number of paper.yaml. Raises ConfigError when there is none at this table, row and column."""
    table, row, column = where
    try:
        value = reference[table]["rows"][row][reference[table]["columns"].index(column)]
        return float(value)
    except (KeyError, ValueError, TypeError, IndexError):
        raise ConfigError(f"claims.yaml: paper.yaml has no number at {table}, {row}, {column}") from None


def gap_error(endpoint: e.PublishedGap, reference: Reference) -> float:
    """Difference of two cells minus the stated one; 0 where they agree to the last printed digit.

    >>> tables = {"t": {"columns": ["x"], "rows": {"r1": [80.6], "claude": [76.0]}}}
    >>> gap = e.PublishedGap(kind="published_gap", a=("t", "claude", "x"), b=("t", "r1", "x"), stated=3.6)
    >>> gap_error(gap, tables)
    1.0
    """
    error = cell(reference, endpoint.b) - cell(reference, endpoint.a) - endpoint.stated
    return 0.0 if abs(error) < 1e-6 else round(error, 6)


def sum_error(endpoint: e.PublishedSum) -> float:
    """Sum of the parts minus the stated total; 0 where it rounds to the total.

    >>> sum_error(e.PublishedSum(kind="published_sum", parts=(11, 5, 101), stated=117))
    0.0
    >>> sum_error(e.PublishedSum(kind="published_sum", parts=(17, 93), stated=100))
    10.0
    """
    error = math.fsum(endpoint.parts) - endpoint.stated
    return 0.0 if abs(error) <= _HALF else round(error, 6)


def granularity_error(endpoint: e.PublishedGranularity, reference: Reference) -> float:
    """Percentage minus the nearest one that a mean of so many 0/1 outcomes can have, as printed; 0 where it can be.

    A mean of 480 outcomes near 77 percent prints as 76.9 (369 / 480) or 77.1 (370 / 480), never as 77.0.

    >>> tables = {"t": {"columns": ["x"], "rows": {"a": [77.0], "b": [80.6]}}}
    >>> check = lambda row: e.PublishedGranularity(
    ...     kind="published_granularity", cell=("t", row, "x"), num_outcomes=480, digits=1)
    >>> granularity_error(check("a"), tables), granularity_error(check("b"), tables)
    (-0.1, 0.0)
    """
    value, num = cell(reference, endpoint.cell), endpoint.num_outcomes
    near = math.floor(value / 100 * num)
    possible = [round(100 * count / num, endpoint.digits) for count in range(max(0, near - 1), near + 3)]
    nearest = min(possible, key=lambda one: (abs(one - value), -one))
    return round(value - nearest, endpoint.digits + 1)


def filter_error(endpoint: e.PublishedFilter) -> float:
    """Share of problems left, minus the most that the other statement allows; 0 where it is no more.

    A problem that all of 32 rollouts solve is solved by all of 8 too. Where over 70 percent of the problems are
    such, a filter that drops them leaves at most 30 percent. 17.3K of 42K are 41 percent.

    >>> round(filter_error(e.PublishedFilter(kind="published_filter", before=42, after=17.3, at_most=0.3)), 3)
    0.112
    """
    return max(0.0, endpoint.after / endpoint.before - endpoint.at_most)


def difference(
    endpoint: e.PublishedDifference, reference: Reference, confidence: float
) -> tuple[float, float, float, float, float]:
    """Two published percentages as independent samples of questions: value, low, high, p, smallest effect shown.

    The mean of k samples per question varies less than one 0/1 outcome, and pairing would narrow it further. The
    published numbers allow neither, so the interval is the widest that fits them. The smallest effect is the one that
    80% of such comparisons would show.

    >>> tables = {"t": {"columns": ["aime24"], "rows": {"R1": [79.8], "rStar2": [80.6]}}}
    >>> endpoint = e.PublishedDifference(kind="published_difference", a=("t", "R1", "aime24"),
    ...                                  b=("t", "rStar2", "aime24"), num_questions=30)
    >>> [round(x, 2) for x in difference(endpoint, tables, 0.95)]
    [0.01, -0.19, 0.21, 0.94, 0.29]
    """
    a, b, n = cell(reference, endpoint.a) / 100, cell(reference, endpoint.b) / 100, endpoint.num_questions
    se = float(np.sqrt((a * (1 - a) + b * (1 - b)) / n))
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    p = float(2 * stats.norm.sf(abs(b - a) / se)) if se > 0 else float(a == b)
    return b - a, b - a - z * se, b - a + z * se, p, (z + float(stats.norm.ppf(0.8))) * se
