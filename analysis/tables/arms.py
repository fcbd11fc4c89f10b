"""`endpoint_grid`: endpoints of the experiment arms and their differences; the unit is the SFT checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.experiments.arms import (
    AXES,
    CONTRASTS,
    ENDPOINTS,
    MIN_ORIGINS,
    POWER,
    ArmContrast,
    ArmRuns,
    at_equal_cost,
    by_arm,
    difference,
    endpoint,
    holm_over_pairs,
    over_origins,
    read_run_arms,
    shown,
)
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.tables.grid import DASH, Grid
from config.model import AnalysisSection
from records.arm_record import ArmRecord

Contrast = tuple[str, str, str]
"""a, b, what b - a isolates."""


def grid(run: Run, settings: AnalysisSection, reference: Reference) -> Grid:
    """Means of each arm, then differences."""
    return endpoint_grid(read_run_arms(run), settings.confidence)


def endpoint_grid(
    records: Sequence[ArmRecord],
    confidence: float,
    baseline: str | None = None,
    contrasts: Sequence[Contrast] = CONTRASTS,
    name: str = "arms",
) -> Grid:
    """Means of each arm and paired differences: the contrasts, or every arm against `baseline`."""
    arms = by_arm(records)
    means = [
        [arm, str(len(runs)), *[_mean_cell(runs, name) for name in ENDPOINTS], DASH]
        for arm, runs in sorted(arms.items())
    ]
    over_checkpoints, over_seeds = [], []
    for a, b, what in _present(arms, contrasts, baseline):
        found = {
            name: difference(endpoint(arms[a], name), endpoint(arms[b], name), confidence)
            for name in ENDPOINTS
        }
        wide = {name: over_origins(d, confidence) if d else None for name, d in found.items()}
        rows, units = (over_checkpoints, wide) if any(wide.values()) else (over_seeds, found)
        count = max((d.num_pairs for d in units.values() if d), default=0)
        cells = [cell(name, d) for name, d in units.items()]
        rows.append([_label(a, b, what), str(count), *cells, smallest_cell(units["accuracy"])])
    groups = {"means": means}
    if over_checkpoints:
        groups["differences over SFT checkpoints"] = over_checkpoints
    if over_seeds:
        groups[f"differences over seeds of fewer than {MIN_ORIGINS} SFT checkpoints"] = over_seeds
    return Grid(
        name=name,
        title="Experiment arms: endpoints",
        header=["arm", "runs or units", *ENDPOINTS.values(), "smallest effect, sealed test"],
        groups=groups,
        note="Sealed test: avg@1 over the test rings after the last step. The rest: raw rollouts before selection, "
        f"last third of the steps; shares in percent, lengths in tokens. Student's {100 * confidence:.0f}% intervals, "
        "paired by SFT checkpoint and seed; seeds of a checkpoint are averaged first. Intervals over the seeds of one "
        "checkpoint hold for that checkpoint only. Smallest effect: what such a comparison shows with "
        f"{100 * POWER:.0f}% power. Intervals are not adjusted for their number.",
    )


def pair_grid(records: Sequence[ArmRecord], confidence: float) -> Grid:
    """Sealed test of every pair of main arms: over pairs, over SFT checkpoints, Holm over all pairs of the table."""
    arms = by_arm(records)
    adjusted = holm_over_pairs(arms, confidence)
    rows = []
    for a, b, what in _present(arms, CONTRASTS, None):
        found = difference(endpoint(arms[a], "accuracy"), endpoint(arms[b], "accuracy"), confidence)
        wide = over_origins(found, confidence) if found else None
        if found is None or wide is None or (a, b) not in adjusted:
            continue
        over_pairs = [str(found.num_pairs), cell("accuracy", found)]
        over_checkpoints = [str(wide.num_pairs), cell("accuracy", wide), smallest_cell(wide)]
        rows.append(
            [_label(a, b, what), *over_pairs, *over_checkpoints, f"{wide.p:.4f}", f"{adjusted[a, b]:.4f}"]
        )
    return Grid(
        name="pairs",
        title="Every pair of the six main arms: sealed test",
        header=[
            "contrast",
            "pairs",
            "over pairs",
            "checkpoints",
            "over checkpoints",
            "smallest effect",
            "p",
            "p, Holm",
        ],
        groups={f"percentage points; Holm over {len(rows)} pairs of arms": rows},
        note="p and smallest effect are over SFT checkpoints, the unit that the contrast generalises to.",
    )


def cost_grid(records: Sequence[ArmRecord], confidence: float) -> Grid:
    """The contrasts where the cheaper arm of each pair ends, on each axis of cost."""
    arms = by_arm(records)
    over_checkpoints, over_seeds = [], []
    for a, b, what in _present(arms, CONTRASTS, None):
        found = [at_equal_cost(arms[a], arms[b], axis, confidence) for axis in AXES]
        wide = [over_origins(d, confidence) if d else None for d in found]
        rows, units = (over_checkpoints, wide) if any(wide) else (over_seeds, found)
        rows.append([_label(a, b, what), *[cell("accuracy", d) for d in units]])
    groups = {"percentage points over SFT checkpoints": over_checkpoints} if over_checkpoints else {}
    if over_seeds:
        groups[f"percentage points over seeds of fewer than {MIN_ORIGINS} SFT checkpoints"] = over_seeds
    return Grid(
        name="equal_cost",
        title="Accuracy of raw training rollouts at equal cost",
        header=["contrast", *[f"at equal {label}" for label in AXES.values()]],
        groups=groups,
        note="Cost is what was spent before the policy was measured. Each pair is compared where the cheaper of the "
        "two ends; curves averaged over three steps, at their mean cost. Off the first column the arms are at "
        "different steps and meet different problems. Records whose checkpoints share a problem order repeat that "
        "difference, so these intervals are too narrow for them; the sealed test is not affected.",
    )


def cell(name: str, found: ArmContrast | None) -> str:
    """A difference with its interval."""
    if found is None:
        return DASH
    value = shown(name, found.value, signed=True)
    if not math.isfinite(found.low):
        return value
    return f"{value} [{shown(name, found.low, signed=True)}, {shown(name, found.high, signed=True)}]"


def smallest_cell(found: ArmContrast | None) -> str:
    """The smallest effect on the sealed test that a comparison shows, percentage points."""
    return shown("accuracy", found.smallest) if found else DASH


def _present(
    arms: Mapping[str, ArmRuns], contrasts: Sequence[Contrast], baseline: str | None
) -> list[Contrast]:
    if baseline is not None:
        contrasts = [(baseline, arm, "") for arm in sorted(arms) if arm != baseline]
    return [contrast for contrast in contrasts if contrast[0] in arms and contrast[1] in arms]


def _label(a: str, b: str, what: str) -> str:
    return f"{b} - {a}: {what}" if what else f"{b} - {a}"


def _mean_cell(runs: ArmRuns, name: str) -> str:
    values = endpoint(runs, name)
    return shown(name, sum(values.values()) / len(values)) if values else DASH
