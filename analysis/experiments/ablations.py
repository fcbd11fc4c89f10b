"""`write_ablations`: the page with contrasts of the arms on four axes, variants and doses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.drawing import style
from analysis.experiments import doses, pass_at_k
from analysis.experiments.arms import (
    MAIN_ARMS,
    MIN_ORIGINS,
    ArmContrast,
    by_arm,
    difference,
    endpoint,
    holm_over_pairs,
    over_origins,
    shown,
    untouched_teacher,
)
from analysis.experiments.sampling_grid import grid_of
from analysis.figures import arms as arms_figure
from analysis.report.page import render
from analysis.report.report import inline_svg
from analysis.table_file import save_table
from analysis.tables.arms import cell, cost_grid, endpoint_grid, pair_grid
from analysis.tables.grid import DASH, Grid, write
from config.model import AnalysisSection
from records.arm_record import ArmRecord
from records.errors import ConfigError
from records.files import write_text
from records.run_folder import PAGE

BASELINE = "roc_paper"
FAILED = "tool_error_frac_correct"
STAGES = (("same_steps", "staged", "changing stages, at as many steps"),)
"""a, b, and the effect that b - a isolates."""
CLIPPED = ("roc_paper", "updates_8", "updates_8_clip_020")
"""Arms with 1 and 8 updates per step; clip_020 has the lower bound on both sides."""


def write_ablations(
    records: Sequence[ArmRecord], passes: pd.DataFrame, settings: AnalysisSection, out: Path, name: str
) -> Path:
    """Write index.html, its figures, tables and one CSV of all endpoints into `out`; returns the page.

    Args:
        records: of the arms.
        passes: pass@k of the sampling grid (`analysis.experiments.sampling_grid.table_of`); may be empty.
        settings: confidence.
        out: folder of the page.
        name: name of the run.

    Raises:
        ConfigError: there is no record.
    """
    if not records:
        raise ConfigError("no experiment arm is stored; run snakemake --cores all ablations")
    on_main = [r for r in untouched_teacher(records) if r.arm in MAIN_ARMS]
    tried = {r.origin for r in records if r.arm not in MAIN_ARMS}
    variants = [r for r in records if r.origin in tried]
    table = arms_figure.table_of(on_main)
    dose = doses.table_of(records, settings.confidence)
    figures = {}
    for title, data, draw in (
        ("arms", table, arms_figure.draw),
        ("doses", dose, doses.draw),
        ("pass_at_k", passes, pass_at_k.draw),
    ):
        save_table(data, out / "data" / f"{title}.csv")
        if not data.empty:
            with style.styled():
                style.save(draw(data), out, title, f"{name}: {title}")
            figures[title] = inline_svg((out / f"{title}.svg").read_text(encoding="utf-8"), title)
    endpoints = [{"arm": r.arm, "origin": r.origin, "seed": r.seed, **r.endpoints} for r in records]
    save_table(pd.DataFrame(endpoints), out / "data" / "endpoints.csv")
    tables = [
        pair_grid(on_main, settings.confidence),
        endpoint_grid(on_main, settings.confidence),
        cost_grid(on_main, settings.confidence),
        endpoint_grid(variants, settings.confidence, baseline=BASELINE, name="variants"),
        clip_grid(variants, settings.confidence),
        endpoint_grid(
            [r for r in variants if r.arm in {arm for pair in STAGES for arm in pair[:2]}],
            settings.confidence,
            contrasts=STAGES,
            name="staged",
        ),
        dose_grid(dose),
    ]
    for grid in tables:
        write(grid, out / "tables")
    page = render(
        "ablations.html",
        run=name,
        num_runs=len(records),
        num_arms=len(by_arm(records)),
        origins=sorted({r.origin for r in records}),
        machines=any("@" in r.origin for r in records),
        texts=sorted({(r.arm, r.text) for r in records}),
        sentences=sentences(on_main, settings.confidence),
        tables=tables,
        passes=None if passes.empty else grid_of(passes),
        figures=figures,
        confidence=settings.confidence,
    )
    path = out / PAGE
    write_text(path, page)
    return path


def sentences(records: Sequence[ArmRecord], confidence: float) -> list[str]:
    """Return computed sentences on the results of the main arms; SFT checkpoints are the unit."""
    arms = by_arm(records)
    adjusted = holm_over_pairs(arms, confidence)

    def found(a: str, b: str, name: str = "accuracy") -> ArmContrast | None:
        if a not in arms or b not in arms:
            return None
        contrast = difference(endpoint(arms[a], name), endpoint(arms[b], name), confidence)
        return over_origins(contrast, confidence) if contrast else None

    lines = []
    for a, b, name, text in (
        (
            "random_2g_to_g",
            "roc_paper",
            FAILED,
            "RoC's penalty changes the failed calls of correct rollouts by",
        ),
        ("random_2g_to_g", "roc_paper", "accuracy", "The penalty alone changes the sealed test by"),
        ("random_2g_to_g", "roc_release", "accuracy", "By the release's rule it changes the sealed test by"),
        (
            "grpo_2g",
            "random_2g_to_g",
            "accuracy",
            "Throwing half of the rollouts away at random changes it by",
        ),
        ("grpo_g", "grpo_2g", "accuracy", "Twice the rollouts, all of them trained, change it by"),
        ("grpo_2g", "roc_paper", "accuracy", "RoC against training on all of its rollouts changes it by"),
    ):
        contrast = found(a, b, name)
        if contrast is None:
            lines.append(f"{text}: not measured on {MIN_ORIGINS} SFT checkpoints ({b} - {a}).")
        else:
            holm = f", p {adjusted[a, b]:.3f} by Holm" if name == "accuracy" and (a, b) in adjusted else ""
            smallest = f", smallest effect shown {shown(name, contrast.smallest)}"
            units = f"{contrast.num_pairs} SFT checkpoints{smallest}{holm}"
            lines.append(f"{text} {cell(name, contrast)} points ({b} - {a}, {units}): {reading(contrast)}.")
    return lines


def reading(found: ArmContrast) -> str:
    """Describe the interval.

    >>> reading(ArmContrast(value=0.1, low=-0.1, high=0.3, p=0.2, num_pairs=3, by_origin=(0.1,)))
    'not distinguished from 0'
    """
    if found.low > 0:
        return "above 0"
    if found.high < 0:
        return "below 0"
    return "not distinguished from 0"


def clip_grid(records: Sequence[ArmRecord], confidence: float) -> Grid:
    """Return how often each side of the clip acts, and the effect of a higher upper bound."""
    arms = by_arm(records)
    rows = []
    for name in (name for name in CLIPPED if name in arms):
        mean = endpoint(arms[name], "accuracy")
        shares = [
            [r.endpoints[side] for r in arms[name].values() if side in r.endpoints]
            for side in ("clip_low_frac", "clip_high_frac")
        ]
        cells = [f"{100 * sum(values) / len(values):.3f}" if values else DASH for values in shares]
        against = name.removesuffix("_clip_020") if name.endswith("_clip_020") else None
        effect = DASH
        if against in arms:
            effect = cell("accuracy", difference(mean, endpoint(arms[against], "accuracy"), confidence))
        rows.append([name, str(len(mean)), *cells, shown("accuracy", sum(mean.values()) / len(mean)), effect])
    return Grid(
        name="clip",
        title="Does the clip act?",
        header=["arm", "runs", "clipped below, %", "clipped above, %", "sealed test", "0.28 minus 0.20"],
        groups={"share of trained tokens, last third": rows},
        note="With one update per step the ratio is 1 and no clip can act; Clip-Higher is tested where it acts.",
    )


def dose_grid(table: pd.DataFrame) -> Grid:
    """Dose and response in numbers."""
    groups: dict[str, list[list[str]]] = {}
    if not table.empty:
        for (noise, dose), part in table.groupby(["noise", "dose"], sort=False):
            found: dict[str, Any] = {str(row.endpoint): row for row in part.itertuples()}
            cells = [
                f"{shown(name, row.value, signed=True)} "
                f"[{shown(name, row.low, signed=True)}, {shown(name, row.high, signed=True)}]"
                if (row := found.get(name))
                else DASH
                for name in doses.SHOWN
            ]
            num = max(row.num_pairs for row in found.values())
            groups.setdefault(f"{noise}, share of calls", []).append([f"{dose:g}", str(num), *cells])
    return Grid(
        name="doses",
        title="RoC minus random selection",
        header=["dose", "pairs", "sealed test", "failed calls, correct"],
        groups=groups,
        note="Percentage points with intervals over pairs.",
    )
