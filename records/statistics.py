"""Estimates, intervals and tests for graded samples: pure functions of numbers, seeded, deterministic.

The common input is `Outcomes`: question id -> the outcomes of its samples (0 or 1; fractions are allowed). The unit of
every interval is the question, not the sample: samples of one question share its difficulty, and counting them as
independent makes intervals far too narrow (Miller, arXiv 2411.00640). For few questions the normal approximation is
also too narrow (Bowyer et al., arXiv 2503.01747). Intervals are therefore Wilson at one sample per question, for few
questions and for equal ones, and otherwise a bootstrap over questions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

Outcomes = Mapping[str, Sequence[float]]
"""Question id -> outcomes of its samples."""

Floats = NDArray[np.float64]

RESAMPLES = 10_000
"""Default number of bootstrap and permutation draws."""

_CHUNK = 250
"""Draws made at once: bounds memory at _CHUNK x questions."""

_ROUNDING = 1e-12
"""Relative spread up to which values differ only by rounding."""

FEW_UNITS = 5
"""Below this many units a bootstrap samples too little of their spread, and Wilson replaces it."""

_EXACT_SIGN_FLIP = 12
"""Up to this many non-zero differences, all 2^n sign patterns are enumerated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its confidence interval."""

    value: float
    low: float
    high: float
    method: str
    """wilson, bootstrap or t."""
    num: int
    """Number of units (questions or seeds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean of B - A over the questions of both, with its uncertainty."""

    value: float
    low: float
    high: float
    se: float
    """Standard error of the mean difference over questions."""
    p: float
    """Two-sided sign-flip permutation p over questions."""
    p_mcnemar: float | None
    """Exact McNemar p; None unless both sides have one 0/1 outcome per question."""
    num_questions: int
    newly_right: int
    """Questions whose mean outcome rose."""
    newly_wrong: int
    """Questions whose mean outcome fell."""


def question_means(outcomes: Outcomes) -> dict[str, float]:
    """Return the mean outcome of each question, sorted by question id.

    Raises:
        ValueError: No question, or a question without a sample.

    >>> question_means({"b": [1, 0], "a": [1]})
    {'a': 1.0, 'b': 0.5}
    """
    if not outcomes:
        raise ValueError(
            "no questions: there is nothing to average; check that the samples file is not empty"
        )
    empty = [q for q, values in outcomes.items() if len(values) == 0]
    if empty:
        raise ValueError(
            f"{len(empty)} question(s) without a sample, first {min(empty)!r}: drop or grade them"
        )
    return {question: float(np.mean(outcomes[question])) for question in sorted(outcomes)}


def num_samples_per_question(outcomes: Outcomes) -> int:
    """Return the number of samples of the question with the fewest.

    >>> num_samples_per_question({"a": [1, 0], "b": [1]})
    1
    """
    question_means(outcomes)
    return min(len(values) for values in outcomes.values())


def avg_at_k(outcomes: Outcomes) -> float:
    """Return avg@k: the mean over questions of each question's mean over its k samples.

    >>> avg_at_k({"a": [1, 1, 0, 0], "b": [1, 1, 1, 1]})
    0.75
    """
    return float(np.mean(list(question_means(outcomes).values())))


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return the chance that k samples drawn without replacement include a correct one: 1 - C(n-c, k) / C(n, k).

    Computed as a product, which neither overflows nor cancels (Chen et al., arXiv 2107.03374).

    Raises:
        ValueError: Fewer than k samples: the estimate does not exist, and 1 - (1 - c/n)^k is biased.

    >>> pass_at_k(4, 1, 2)  # 1 - C(3,2)/C(4,2) = 1 - 3/6
    0.5
    >>> pass_at_k(4, 3, 2)  # only one wrong sample: two draws cannot both miss
    1.0
    >>> pass_at_k(3, 1, 4)
    Traceback (most recent call last):
    ValueError: pass@4 needs at least 4 samples per question, there are 3: sample more or lower k
    """
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    if num_samples < k:
        raise ValueError(
            f"pass@{k} needs at least {k} samples per question, there are {num_samples}: sample more or lower k"
        )
    wrong = num_samples - num_correct
    if wrong < k:
        return 1.0
    return float(1.0 - np.prod([(wrong - i) / (num_samples - i) for i in range(k)]))


def pass_hat_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return pass^k: the chance that k samples drawn without replacement are all correct, C(c, k) / C(n, k).

    >>> pass_hat_k(4, 3, 2)  # C(3,2)/C(4,2) = 3/6
    0.5
    >>> pass_hat_k(4, 1, 2)
    0.0
    """
    return 1.0 - pass_at_k(num_samples, num_samples - num_correct, k)


def pass_at_k_by_question(outcomes: Outcomes, k: int) -> dict[str, float]:
    """Return pass@k of each question.

    >>> pass_at_k_by_question({"a": [1, 0, 0, 0], "b": [0, 0, 0, 0]}, 2)
    {'a': 0.5, 'b': 0.0}
    """
    question_means(outcomes)
    return {q: pass_at_k(len(outcomes[q]), int(sum(outcomes[q])), k) for q in sorted(outcomes)}


def pass_hat_k_by_question(outcomes: Outcomes, k: int) -> dict[str, float]:
    """Return pass^k of each question.

    >>> pass_hat_k_by_question({"a": [1, 1, 1, 0], "b": [1, 1, 1, 1]}, 2)
    {'a': 0.5, 'b': 1.0}
    """
    question_means(outcomes)
    return {q: pass_hat_k(len(outcomes[q]), int(sum(outcomes[q])), k) for q in sorted(outcomes)}


def cons_at_k(answers: Sequence[str | None], correct: Sequence[float]) -> float:
    """Return cons@k of one question: 1 if the most frequent answer is right.

    The vote is on groups of equal answers, not on verdicts: all wrong answers together would outvote the right one.
    Groups tied for the lead share the credit equally, the expected value of a fair draw among them. None (unparsed, no
    answer) has no vote; a question without votes counts 0. Order does not matter.

    `answers` holds the group of each sample; a group has the mean outcome (`correct`) of its samples.

    >>> cons_at_k(["5", "5", "7"], [1, 1, 0])
    1.0
    >>> cons_at_k(["5", "7", None], [1, 0, 0])  # a tie: half the credit
    0.5
    >>> cons_at_k([None, None], [0, 0])
    0.0
    >>> cons_at_k(["5", "5"], [1, 0]) == cons_at_k(["5", "5"], [0, 1])
    True
    """
    if len(answers) != len(correct):
        raise ValueError(f"{len(answers)} answers but {len(correct)} outcomes: they must be aligned")
    outcomes: dict[str, list[float]] = {}
    for answer, value in zip(answers, correct, strict=True):
        if answer is not None:
            outcomes.setdefault(answer, []).append(float(value))
    if not outcomes:
        return 0.0
    lead = max(map(len, outcomes.values()))
    leaders = [values for values in outcomes.values() if len(values) == lead]
    return math.fsum(map(math.fsum, leaders)) / (lead * len(leaders))


def wilson(num_correct: float, num: int, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of a proportion: the interval for one sample per question.

    `num_correct` may be a sum of fractions. They vary at most as 0/1 outcomes of the same mean, so it is then too wide.

    >>> interval = wilson(24, 30)
    >>> round(interval.low, 3), round(interval.value, 3), round(interval.high, 3)
    (0.627, 0.8, 0.905)
    >>> interval = wilson(0.25, 1)  # one question, right in one sample of four
    >>> round(interval.low, 3), interval.value, round(interval.high, 3)
    (0.015, 0.25, 0.882)
    """
    if num < 1 or not 0 <= num_correct <= num:
        raise ValueError(f"{num_correct} correct of {num}: need 0 <= correct <= num and num >= 1")
    value, z = num_correct / num, float(-ndtri((1 - confidence) / 2))
    scale = 1 + z**2 / num
    center = (value + z**2 / (2 * num)) / scale
    half = z * math.sqrt(value * (1 - value) / num + z**2 / (4 * num**2)) / scale
    # The bounds are exactly 0 and 1 when none or all are correct; rounding would leave 3e-17.
    low, high = (0.0 if num_correct == 0 else center - half), (1.0 if num_correct == num else center + half)
    return Interval(value=value, low=low, high=high, method="wilson", num=num)


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return Student's t interval of a mean; values are one number per unit (question mean, seed).

    One value, or equal values, have no spread: the interval is then infinite.

    >>> interval = t_interval([1.0, 2.0, 3.0])  # 2 -+ 4.303 * 1 / sqrt(3)
    >>> round(interval.low, 3), interval.value, round(interval.high, 3)
    (-0.484, 2.0, 4.484)
    >>> t_interval([1.0, 1.0]).high
    inf
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        raise ValueError("no values: an interval needs at least one")
    mean = float(x.mean())
    if x.size == 1 or float(np.ptp(x)) <= _ROUNDING * max(1.0, float(np.max(np.abs(x)))):
        return Interval(value=mean, low=-np.inf, high=np.inf, method="t", num=int(x.size))
    # This import takes 0.5 CPU-s, and an evaluation needs no t quantile.
    from scipy import stats

    half = float(stats.t.ppf(0.5 + confidence / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size))
    return Interval(value=mean, low=mean - half, high=mean + half, method="t", num=int(x.size))


def bootstrap_means(
    values: ArrayLike,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    clusters: Sequence[Hashable] | None = None,
) -> Floats:
    """Return means of resamples, drawn with replacement by unit, or by cluster of units.

    Args:
        values: One number per unit.
        seed: Seed of the draws.
        resamples: Number of draws.
        clusters: Label of each unit; units with one label are drawn together (questions that share a source).

    Returns:
        Shape (resamples,).

    >>> bootstrap_means([1.0, 1.0], seed=0, resamples=3)
    array([1., 1., 1.])
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        raise ValueError("no values: a bootstrap needs at least one")
    total, count = x, np.ones_like(x)
    if clusters is not None:
        labels = {label: i for i, label in enumerate(dict.fromkeys(clusters))}
        index = np.array([labels[label] for label in clusters])
        total, count = np.bincount(index, x), np.bincount(index).astype(np.float64)
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for start in range(0, resamples, _CHUNK):
        stop = min(start + _CHUNK, resamples)
        drawn = rng.integers(0, total.size, (stop - start, total.size))
        means[start:stop] = total[drawn].sum(1) / count[drawn].sum(1)
    return means


def cluster_bootstrap(
    outcomes: Outcomes,
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    clusters: Mapping[str, Hashable] | None = None,
) -> Interval:
    """Return the percentile bootstrap of avg@k over questions; all samples of a drawn question come along.

    A bootstrap of fewer than `FEW_UNITS` units, or of equal ones, has no spread and would claim certainty. Wilson over
    the units replaces it, which holds for any values in [0, 1].

    Args:
        outcomes: Question -> outcomes in [0, 1].
        seed: Seed of the draws.
        confidence: Level.
        resamples: Number of draws.
        clusters: Question -> a wider cluster, where questions share a source.

    >>> interval = cluster_bootstrap({str(i): [i % 2, i % 2] for i in range(40)}, seed=1)
    >>> interval.value, round(interval.low, 2), round(interval.high, 2)
    (0.5, 0.35, 0.65)
    """
    means = question_means(outcomes)
    labels = None if clusters is None else [clusters[q] for q in means]
    values = list(means.values())
    num_units = len(set(means if labels is None else labels))
    drawn = bootstrap_means(values, seed=seed, resamples=resamples, clusters=labels)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    if num_units < FEW_UNITS or high - low <= _ROUNDING:
        share = min(max(float(np.mean(values)), 0.0), 1.0)
        return replace(wilson(share * num_units, num_units, confidence), num=len(values))
    return Interval(
        value=float(np.mean(values)), low=float(low), high=float(high), method="bootstrap", num=len(values)
    )


def score_interval(outcomes: Outcomes, *, seed: int, confidence: float = 0.95) -> Interval:
    """Return the interval of a score: Wilson at one 0/1 sample per question, else the bootstrap over questions.

    Wilson also replaces it for few questions and for equal ones; see `cluster_bootstrap`. No interval has zero width.

    >>> score_interval({"a": [1], "b": [0]}, seed=0).method
    'wilson'
    >>> score_interval({str(i): [1, i % 2] for i in range(10)}, seed=0).method
    'bootstrap'
    >>> certain = score_interval({str(i): [0, 0] for i in range(30)}, seed=0)
    >>> certain.low, round(certain.high, 3)
    (0.0, 0.114)
    """
    means = question_means(outcomes)
    binary = all(value in (0.0, 1.0) for value in means.values())
    single = all(len(values) == 1 for values in outcomes.values())
    if binary and single:
        return wilson(int(sum(means.values())), len(means), confidence)
    return cluster_bootstrap(outcomes, seed=seed, confidence=confidence)


def resample_weights(num_units: int, *, seed: int, resamples: int) -> Floats:
    """Return how often each unit is drawn in each resample: turns a ratio of sums into two matrix products.

    Returns:
        Shape (resamples, num_units); every row sums to num_units.

    >>> resample_weights(3, seed=0, resamples=2).sum(axis=1)
    array([3., 3.])
    """
    rng = np.random.default_rng(seed)
    return rng.multinomial(num_units, np.full(num_units, 1 / num_units), size=resamples).astype(np.float64)


def question_se(outcomes: Outcomes) -> float:
    """Return the standard error of avg@k over similar questions: spread of question means over sqrt(questions).

    >>> round(question_se({"a": [1, 1], "b": [0, 0], "c": [1, 0]}), 4)  # sd(1, 0, .5) = .5, over sqrt(3)
    0.2887
    """
    values = list(question_means(outcomes).values())
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def rerun_se(outcomes: Outcomes) -> float:
    """Return the standard error of avg@k over the same questions sampled again: the sampling noise alone.

    sqrt(sum_q s_q^2 / k_q) / questions, with s_q^2 the variance (n - 1) over the samples of a question. It excludes the
    spread of questions, and requires at least two samples of each.

    Raises:
        ValueError: A question with one sample.

    >>> round(rerun_se({"a": [1, 0], "b": [1, 1]}), 4)  # sqrt(.5 / 2 + 0) / 2
    0.25
    """
    question_means(outcomes)
    if min(len(values) for values in outcomes.values()) < 2:
        raise ValueError("re-run noise needs two samples of every question: raise k")
    variances = [float(np.var(values, ddof=1)) / len(values) for values in outcomes.values()]
    return float(np.sqrt(sum(variances)) / len(variances))


def sign_flip_p(differences: ArrayLike, *, seed: int, resamples: int = RESAMPLES) -> float:
    """Return the two-sided permutation p of a mean difference: without an effect both signs are equally likely.

    Zero differences do not change under a flip and are left out. Few patterns are enumerated, many are drawn; drawn
    patterns include the observed one, so p is never 0.

    >>> sign_flip_p([1, 1, 1, 1, 1], seed=0)  # 2 of 2^5 patterns are as extreme
    0.0625
    >>> sign_flip_p([0.0, 0.0], seed=0)
    1.0
    """
    d = np.asarray(differences, dtype=np.float64)
    d = d[d != 0]
    if d.size == 0:
        return 1.0
    observed = abs(d.sum()) - 1e-12
    if d.size <= _EXACT_SIGN_FLIP:
        signs = np.array(list(product((-1.0, 1.0), repeat=d.size)))
        return float(np.mean(np.abs(signs @ d) >= observed))
    rng = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        signs = rng.integers(0, 2, (size, d.size), dtype=np.int8) * 2.0 - 1.0
        extreme += int(np.sum(np.abs(signs @ d) >= observed))
    return (extreme + 1) / (resamples + 1)


def mcnemar_p(newly_right: int, newly_wrong: int) -> float:
    """Return the exact McNemar p of paired 0/1 outcomes: a fair coin over the questions that flipped.

    >>> mcnemar_p(5, 0), mcnemar_p(6, 0)  # six flips to none are needed for p < .05
    (0.0625, 0.03125)
    >>> mcnemar_p(0, 0)
    1.0
    """
    if newly_right + newly_wrong == 0:
        return 1.0
    # This import takes 0.8 CPU-s, because it imports pandas, and an evaluation needs no McNemar test.
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar([[0, newly_right], [newly_wrong, 0]], exact=True).pvalue)  # type: ignore[union-attr]


def paired_difference(
    a: Outcomes, b: Outcomes, *, seed: int, confidence: float = 0.95, resamples: int = RESAMPLES
) -> PairedDifference:
    """Return B - A over the questions of both, resampled by question.

    A bootstrap of equal differences has no width, and neither has Student's t. The interval then spans what Wilson
    allows for a share of len(questions) of len(questions) (one unseen exception).

    Raises:
        ValueError: No question in common.

    >>> a = {str(i): [0, 1] for i in range(20)}
    >>> b = {str(i): [1, 1] if i < 15 else [0, 1] for i in range(20)}
    >>> d = paired_difference(a, b, seed=0)
    >>> d.value, d.low > 0, d.p < 0.01, d.newly_right, d.newly_wrong, d.p_mcnemar
    (0.375, True, True, 15, 0, None)
    """
    shared = sorted(set(a) & set(b))
    if not shared:
        raise ValueError("the two sides share no question: they cannot be compared by question")
    means_a, means_b = question_means({q: a[q] for q in shared}), question_means({q: b[q] for q in shared})
    d = np.array([means_b[q] - means_a[q] for q in shared])
    low, high = _difference_bounds(d, seed, confidence, resamples)
    right, wrong = int(np.sum(d > 0)), int(np.sum(d < 0))
    single = all(len(a[q]) == 1 and len(b[q]) == 1 for q in shared)
    binary = single and set(means_a.values()) | set(means_b.values()) <= {0.0, 1.0}
    return PairedDifference(
        value=float(d.mean()),
        low=low,
        high=high,
        se=float(d.std(ddof=1) / np.sqrt(d.size)) if d.size > 1 else float("inf"),
        p=sign_flip_p(d, seed=seed, resamples=resamples),
        p_mcnemar=mcnemar_p(right, wrong) if binary else None,
        num_questions=len(shared),
        newly_right=right,
        newly_wrong=wrong,
    )


def _difference_bounds(d: Floats, seed: int, confidence: float, resamples: int) -> tuple[float, float]:
    if float(np.ptp(d)) <= _ROUNDING:
        slack = 1.0 - wilson(d.size, d.size, confidence).low
        return float(d[0] - slack), float(d[0] + slack)
    drawn = bootstrap_means(d, seed=seed, resamples=resamples)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
