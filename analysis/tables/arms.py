"""Endpoints of the experiment arms and their differences, paired by SFT checkpoint and seed."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.entropy.entropy import Settings
from analysis.experiments.arms import (
    AXES,
    CONTRASTS,
    ENDPOINTS,
    ArmContrast,
    ArmRuns,
    at_equal_cost,
    by_arm,
    difference,
    endpoint,
    over_origins,
    read_run_arms,
    shown,
)
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.tables.grid import DASH, Grid
from records.arm_record import ArmRecord


def grid(run: Run, settings: Settings, reference: Reference) -> Grid:
    """Means of each arm, then differences."""
    return endpoint_grid(read_run_arms(run), settings.confidence)


def endpoint_grid(
    records: Sequence[ArmRecord],
    confidence: float,
    baseline: str | None = None,
    contrasts: Sequence[tuple[str, str, str]] = CONTRASTS,
    name: str = "arms",
) -> Grid:
    """Means of each arm and paired differences: the contrasts, or every arm against `baseline`."""
    arms = by_arm(records)
    means = [
        [arm, str(len(runs)), *[_mean_cell(runs, name) for name in ENDPOINTS]]
        for arm, runs in sorted(arms.items())
    ]
    pairs = (
        [(a, b, f"{b} - {a}: {what}") for a, b, what in contrasts]
        if baseline is None
        else [(baseline, arm, f"{arm} - {baseline}") for arm in sorted(arms) if arm != baseline]
    )
    differences, wide, num_intervals = [], [], 0
    for a, b, label in pairs:
        if a not in arms or b not in arms:
            continue
        found = {
            name: difference(endpoint(arms[a], name), endpoint(arms[b], name), confidence)
            for name in ENDPOINTS
        }
        count = max((d.num_pairs for d in found.values() if d), default=0)
        differences.append([label, str(count), *[cell(name, d) for name, d in found.items()]])
        num_intervals += sum(d is not None and d.num_pairs > 1 for d in found.values())
        over = {name: over_origins(d, confidence) if d else None for name, d in found.items()}
        count = max((d.num_pairs for d in over.values() if d), default=0)
        if count:
            wide.append([label, str(count), *[cell(name, d) for name, d in over.items()]])
    return Grid(
        name=name,
        title="Experiment arms: endpoints fixed beforehand",
        header=["arm", "runs", *ENDPOINTS.values()],
        groups={"means": means, "differences, paired": differences}
        | ({"the same over SFT checkpoints": wide} if wide else {}),
        note="Sealed test: avg@1 over the three rings after the last step. The rest: raw rollouts before selection, "
        "last third of the steps; shares in percent, lengths in tokens. Differences are paired by SFT checkpoint and "
        f"seed, with Student's {100 * confidence:.0f}% interval over pairs; below, where there are several SFT "
        "checkpoints, over their means. One checkpoint represents only itself. Of "
        f"{num_intervals} intervals over pairs some {(1 - confidence) * num_intervals:.0f} leave out 0 by chance.",
    )


def cost_grid(records: Sequence[ArmRecord], confidence: float) -> Grid:
    """The contrasts where the cheaper arm of each pair ends, on each axis of cost."""
    arms = by_arm(records)
    rows, wide = [], []
    for a, b, what in CONTRASTS:
        if a not in arms or b not in arms:
            continue
        found = [at_equal_cost(arms[a], arms[b], axis, confidence) for axis in AXES]
        over = [over_origins(d, confidence) if d else None for d in found]
        rows.append([f"{b} - {a}: {what}", *[cell("accuracy", d) for d in found]])
        if any(over):
            wide.append([f"{b} - {a}: {what}", *[cell("accuracy", d) for d in over]])
    return Grid(
        name="equal_cost",
        title="Accuracy of raw training rollouts at equal cost",
        header=["contrast", *[f"at equal {label}" for label in AXES.values()]],
        groups={"percentage points": rows} | ({"the same over SFT checkpoints": wide} if wide else {}),
        note="Each pair is compared where the cheaper of the two ends; curves averaged over three steps.",
    )


def cell(name: str, found: ArmContrast | None) -> str:
    """A difference with its interval."""
    if found is None:
        return DASH
    value = shown(name, found.value, signed=True)
    if found.num_pairs < 2:
        return value
    return f"{value} [{shown(name, found.low, signed=True)}, {shown(name, found.high, signed=True)}]"


def _mean_cell(runs: ArmRuns, name: str) -> str:
    values = endpoint(runs, name)
    return shown(name, sum(values.values()) / len(values)) if values else DASH
