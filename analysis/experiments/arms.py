"""`difference` and `at_equal_cost`: experiment arms, paired by SFT checkpoint and seed, at equal steps and equal cost.

Two arms are compared on the (origin, seed) pairs that both have. A pair shares SFT checkpoint, problem order and seeds.
The unit of inference is the SFT checkpoint: pairs of one checkpoint are averaged first.

Records of another machine are in a folder of their own, arms/MACHINE. Their origin is read as ORIGIN@MACHINE, so no
pair crosses machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from analysis.claims.multiplicity import holm
from analysis.inputs.runs import Run
from config.arms import MAIN, load_arms
from records.arm_record import REMEDY, ArmRecord, CurvePoint
from records.errors import ConfigError
from records.statistics import t_interval

AXES = {"step": "steps", "rollouts": "rollouts", "sampled_tokens": "sampled tokens", "seconds": "seconds"}
"""Unit of cost in a curve -> its name."""
SMOOTH = 3
"""Steps over which a point of a curve is averaged before two curves are compared."""

MIN_ORIGINS = 3
"""Fewest SFT checkpoints for an interval over them: two that agree by chance would look certain."""
POWER = 0.8
"""Power of the smallest effect that a table prints."""

ENDPOINTS = {
    "accuracy": "sealed test",
    "tool_error_frac_correct": "failed calls, correct",
    "first_call_success_frac": "first call succeeds",
    "response_len_correct_mean": "length, correct",
    "tokens_after_first_error_mean": "tokens after an error",
    "recovery_frac": "recovers",
    "groups_all_right_frac": "groups all right",
}
"""Predefined endpoints -> heading."""
LENGTHS = {"response_len_correct_mean", "tokens_after_first_error_mean"}
"""Endpoints in tokens; the others are shares."""

ArmRuns = Mapping[tuple[str, int], ArmRecord]
"""(origin, seed) -> record, of one arm."""

CONTRASTS = (
    ("random_2g_to_g", "roc_paper", "the penalty alone"),
    ("random_2g_to_g", "roc_release", "the penalty alone, by the release's rule"),
    ("grpo_g", "random_2g_to_g", "oversampling alone"),
    ("grpo_2g", "random_2g_to_g", "half of the rollouts thrown away"),
    ("grpo_g", "grpo_2g", "twice the rollouts, all trained"),
    ("grpo_2g", "roc_paper", "RoC at equal rollouts"),
    ("grpo_2x_prompts", "roc_paper", "RoC against twice the problems"),
    ("grpo_g", "roc_paper", "as the paper compares"),
    ("grpo_2g", "roc_release", "the release's rule at equal rollouts"),
    ("grpo_2x_prompts", "roc_release", "the release's rule against twice the problems"),
    ("grpo_g", "roc_release", "as the paper compares, by the release's rule"),
    ("roc_paper", "roc_release", "the release's rule against the paper's"),
    ("grpo_2x_prompts", "random_2g_to_g", "random selection against twice the problems"),
    ("grpo_2x_prompts", "grpo_2g", "rollouts spent on depth against breadth"),
    ("grpo_g", "grpo_2x_prompts", "twice the problems"),
)
"""a, b, what b - a isolates: every pair of the six main arms."""
MAIN_ARMS = ("grpo_g", "grpo_2g", "random_2g_to_g", "grpo_2x_prompts", "roc_paper", "roc_release")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmContrast:
    """Arm b minus arm a."""

    value: float
    low: float
    """-inf with a single pair."""
    high: float
    p: float | None
    num_pairs: int
    by_origin: tuple[float, ...]
    """Mean over the pairs of each SFT checkpoint; pairs of one checkpoint are not independent."""
    smallest: float = math.inf
    """Smallest effect that this many units with this spread show with power `POWER`; inf with a single unit."""


def records_in(folder: Path) -> list[ArmRecord]:
    """All records of a folder and of the machines in it, sorted.

    Raises:
        ConfigError: a record is damaged, or two machines hold the same run.
    """
    records = read_arms(sorted(folder.glob("*.json")))
    for machine in sorted(path for path in folder.glob("*") if path.is_dir()):
        found = read_arms(sorted(machine.glob("*.json")))
        records += [replace(record, origin=f"{record.origin}@{machine.name}") for record in found]
    require_distinct(records)
    return records


def require_distinct(records: Sequence[ArmRecord]) -> None:
    """Raise ConfigError where two records of one arm and seed hold the same run: it would count as two units.

    Two runs are the same when endpoints and accuracies of every step agree in every digit; seconds may differ.
    """
    seen: dict[tuple[object, ...], str] = {}
    for record in records:
        curve = tuple((point.step, point.accuracy, point.sampled_tokens) for point in record.curve)
        run = (record.arm, record.seed, origin_name(record.origin), *sorted(record.endpoints.items()), curve)
        if (other := seen.setdefault(run, record.origin)) != record.origin:
            raise ConfigError(
                f"{record.arm}, seed {record.seed}: {other} and {record.origin} hold the same run to the last digit, "
                "which is one unit and not two; delete one of the records"
            )


def untouched_teacher(records: Sequence[ArmRecord]) -> list[ArmRecord]:
    """Records whose SFT checkpoint had the preset's own teacher: those that the contrasts of arms are about.

    A checkpoint of another teacher answers another question: how an effect depends on the teacher's errors.
    """
    taught_anew = {name for name, origin in load_arms().origins.items() if origin.teaches_anew}
    return [record for record in records if origin_name(record.origin) not in taught_anew]


def origin_name(origin: str) -> str:
    """Return an origin without its machine.

    >>> origin_name("sft_seed_1@amd"), origin_name("main")
    ('sft_seed_1', 'main')
    """
    return origin.partition("@")[0]


def read_arms(paths: Iterable[Path]) -> list[ArmRecord]:
    """Read the records in some files; ConfigError when a file is none."""
    return [ArmRecord.load(path) for path in paths]


def read_run_arms(run: Run) -> list[ArmRecord]:
    """Return the records of the arms that a run declares.

    Raises:
        ConfigError: a record is of another run, or started from another SFT checkpoint.
    """
    paths = run.arm_files()
    records = read_arms(paths)
    for path, record in zip(paths, records, strict=True):
        manifest = run.manifest("sft") if record.origin == MAIN else None
        if record.run != run.name:
            raise ConfigError(f"{path}: is of run {record.run}, not of {run.name}; {REMEDY}")
        if manifest is not None and record.parent != manifest.digest:
            raise ConfigError(
                f"{path}: started from another SFT checkpoint than that of {run.root}; {REMEDY}"
            )
    return records


def by_arm(records: Sequence[ArmRecord]) -> dict[str, ArmRuns]:
    """Return arm -> its runs."""
    found: dict[str, dict[tuple[str, int], ArmRecord]] = {}
    for record in records:
        found.setdefault(record.arm, {})[record.pair] = record
    return dict(found)


def difference(
    a: Mapping[tuple[str, int], float], b: Mapping[tuple[str, int], float], confidence: float
) -> ArmContrast | None:
    """Mean of b - a over the pairs that both have, with Student's interval and test; None without a pair.

    Three pairs with differences 1, 2, 3: 2 -+ 4.303 / sqrt(3).

    >>> zeros = {("main", s): 0.0 for s in (1, 2, 3)}
    >>> found = difference(zeros, {("main", s): float(s) for s in (1, 2, 3)}, 0.95)
    >>> found.value, round(found.low, 3), found.num_pairs, found.by_origin
    (2.0, -0.484, 3, (2.0,))
    """
    shared = sorted(set(a) & set(b))
    if not shared:
        return None
    differences = np.array([b[pair] - a[pair] for pair in shared])
    interval = t_interval(differences, confidence)
    return ArmContrast(
        value=interval.value,
        low=interval.low,
        high=interval.high,
        p=_p_of(differences) if len(shared) > 1 else None,
        num_pairs=len(shared),
        by_origin=tuple(
            float(np.mean([d for d, (o, _) in zip(differences, shared, strict=True) if o == origin]))
            for origin in sorted({origin for origin, _ in shared})
        ),
        smallest=smallest_effect(differences, confidence),
    )


def over_origins(found: ArmContrast, confidence: float) -> ArmContrast | None:
    """Return the contrast with SFT checkpoints as the unit: Student's over their means; None below `MIN_ORIGINS`.

    Seeds of one checkpoint share its peculiarities, so the interval over pairs holds for these checkpoints only; this
    one holds for checkpoints trained alike. Means 1, 2, 3 of two pairs each: 2 -+ 4.303 / sqrt(3).

    >>> pairs = {(origin, seed): mean for origin, mean in (("a", 1.0), ("b", 2.0), ("c", 3.0)) for seed in (0, 1)}
    >>> found = difference(dict.fromkeys(pairs, 0.0), pairs, 0.95)
    >>> round(found.low, 3), round(over_origins(found, 0.95).low, 3), over_origins(found, 0.95).num_pairs
    (1.061, -0.484, 3)
    """
    if len(found.by_origin) < MIN_ORIGINS:
        return None
    means = np.array(found.by_origin)
    interval = t_interval(means, confidence)
    return replace(
        found,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        p=_p_of(means),
        num_pairs=len(means),
        smallest=smallest_effect(means, confidence),
    )


def holm_over_pairs(arms: Mapping[str, ArmRuns], confidence: float) -> dict[tuple[str, str], float]:
    """(a, b) -> p of the sealed test over SFT checkpoints, Holm-adjusted over every contrast that was measured."""
    p: dict[tuple[str, str], float] = {}
    for a, b, _ in CONTRASTS:
        if a in arms and b in arms:
            found = difference(endpoint(arms[a], "accuracy"), endpoint(arms[b], "accuracy"), confidence)
            wide = over_origins(found, confidence) if found else None
            if wide is not None and wide.p is not None:
                p[a, b] = wide.p
    return dict(zip(p, holm(list(p.values())), strict=True))


def smallest_effect(values: np.ndarray, confidence: float) -> float:
    """Smallest true mean that a two-sided Student's test of such values shows with power `POWER`.

    (t_{1 - alpha/2, n-1} + t_{power, n-1}) sd / sqrt(n), the usual approximation. With n = 3 and sd = 1 that is
    (4.303 + 1.061) / sqrt(3).

    >>> round(smallest_effect(np.array([1.0, 2.0, 3.0]), 0.95), 3)
    3.097
    >>> smallest_effect(np.array([1.0]), 0.95)
    inf
    """
    num = len(values)
    if num < 2:
        return math.inf
    quantiles = stats.t.ppf([0.5 + confidence / 2, POWER], num - 1)
    return float(quantiles.sum() * values.std(ddof=1) / math.sqrt(num))


def _p_of(differences: np.ndarray) -> float:
    """Return p of Student's test against 0; 1 where all differences are equal up to rounding, without spread."""
    return 1.0 if float(np.ptp(differences)) < 1e-12 else float(stats.ttest_1samp(differences, 0.0)[1])


def endpoint(arm: ArmRuns, name: str) -> dict[tuple[str, int], float]:
    """Return one endpoint of an arm's runs; runs without a case of it are left out."""
    return {pair: record.endpoints[name] for pair, record in arm.items() if name in record.endpoints}


def at_equal_cost(a: ArmRuns, b: ArmRuns, axis: str, confidence: float) -> ArmContrast | None:
    """Return accuracy of raw training rollouts, b - a, where the cheaper of each pair ends.

    Curves are averaged over `SMOOTH` steps and read between their points. Off the step axis the two arms are then at
    different steps and meet different problems, which no interval over seeds of one order covers.
    """
    ends: tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]] = ({}, {})
    for pair in set(a) & set(b):
        curves = [smoothed(record.curve, axis) for record in (a[pair], b[pair])]
        if any(not len(x) for x, _ in curves):
            continue
        cost = min(x[-1] for x, _ in curves)
        if cost < max(x[0] for x, _ in curves):
            continue
        for side, (x, y) in zip(ends, curves, strict=True):
            side[pair] = float(np.interp(cost, x, y))
    return difference(ends[0], ends[1], confidence)


def smoothed(curve: Sequence[CurvePoint], axis: str) -> tuple[np.ndarray, np.ndarray]:
    """Cost spent before a policy was measured, and its accuracy: both means of `SMOOTH` consecutive steps.

    The rollouts of step s come from the policy that the steps before s trained, so their cost is not in it. A mean is
    at the mean cost of its steps: at the cost of the last it would favour arms with cheap steps. Fewer steps are
    averaged together.

    >>> points = [CurvePoint(step=s, rollouts=10 * s, sampled_tokens=0, seconds=0, accuracy=0.1 * s)
    ...           for s in (1, 2, 3, 4)]
    >>> x, y = smoothed(points, "rollouts")
    >>> x.tolist(), y.round(3).tolist()
    ([10.0, 20.0], [0.2, 0.3])
    """
    costs = [0.0, *(float(getattr(point, axis)) for point in curve)]
    known = [
        (cost, point.accuracy)
        for cost, point in zip(costs, curve, strict=False)
        if point.accuracy is not None
    ]
    if not known:
        return np.zeros(0), np.zeros(0)
    width = min(SMOOTH, len(known))
    x, y = (np.convolve(values, np.ones(width) / width, mode="valid") for values in zip(*known, strict=True))
    return x, y


def curve_table(records: Sequence[ArmRecord]) -> pd.DataFrame:
    """One row per arm, run and step."""
    rows = [
        {"arm": record.arm, "origin": record.origin, "seed": record.seed, **asdict(point)}
        for record in records
        for point in record.curve
    ]
    return pd.DataFrame(rows)


def shown(name: str, value: float, *, signed: bool = False) -> str:
    """Format a value of an endpoint as a cell: percent for shares, tokens for lengths.

    >>> shown("accuracy", 0.1234, signed=True), shown("response_len_correct_mean", 61.24)
    ('+12.3', '61.2')
    """
    scaled = value if name in LENGTHS else 100 * value
    if not math.isfinite(scaled):
        return "-"
    return f"{scaled:+.1f}" if signed else f"{scaled:.1f}"
