"""`draw`: dose and response: RoC minus random selection against random failures and against the teacher's errors."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import style
from analysis.experiments.arms import ENDPOINTS, by_arm, difference, endpoint, origin_name
from records.arm_record import ArmRecord

OUTSIDE = {0.0: ("random_2g_to_g", "roc_paper")} | {
    dose / 100: (f"random_tool_fails_{dose}", f"roc_tool_fails_{dose}") for dose in (20, 40)
}
"""Share of calls that fail by chance -> arms a and b."""
TEACHER = {0.0: "teacher_errors_0", 0.4: "teacher_errors_40"}
"""Share of documents whose first call fails -> origin."""
SHOWN = ("accuracy", "tool_error_frac_correct")


def table_of(records: Sequence[ArmRecord], confidence: float) -> pd.DataFrame:
    """One row per kind of noise, dose and endpoint: RoC minus random with its interval."""
    arms = by_arm(records)
    noisy = {origin for dose, (_, b) in OUTSIDE.items() if dose for origin, _ in arms.get(b, {})}
    taught = {
        dose: {r.origin for r in records if origin_name(r.origin) == name} for dose, name in TEACHER.items()
    }
    rows = []
    for kind, dose, a, b, origins in [
        ("calls fail by chance", dose, a, b, noisy) for dose, (a, b) in OUTSIDE.items()
    ] + [
        ("the teacher errs", dose, "random_2g_to_g", "roc_paper", origins) for dose, origins in taught.items()
    ]:
        for name in SHOWN:
            values = [
                {pair: v for pair, v in endpoint(arms.get(arm, {}), name).items() if pair[0] in origins}
                for arm in (a, b)
            ]
            found = difference(values[0], values[1], confidence)
            if found is not None:
                rows.append(
                    {"noise": kind, "dose": dose, "endpoint": name, "value": found.value, "low": found.low,
                     "high": found.high, "num_pairs": found.num_pairs}
                )  # fmt: skip
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> Figure:
    """One column per kind of noise, one row per endpoint."""
    kinds = list(dict.fromkeys(table["noise"]))
    figure, panels = style.new_figure(len(SHOWN), len(kinds), height=4.0)
    for row, name in enumerate(SHOWN):
        for column, kind in enumerate(kinds):
            axes = panels[row * len(kinds) + column]
            part = table[(table["noise"] == kind) & (table["endpoint"] == name)].sort_values("dose")
            below, above = part["value"] - part["low"], part["high"] - part["value"]
            axes.errorbar(
                part["dose"], part["value"], yerr=[below, above], color=style.BLUE, marker="o", capsize=2
            )
            axes.axhline(0, color=style.INK, linewidth=0.9)
            style.as_percent(axes)
            if not row:
                axes.set_title(kind)
            if row + 1 == len(SHOWN):
                axes.set_xlabel("dose")
            if not column:
                axes.set_ylabel(f"{ENDPOINTS[name]},\nRoC minus random")
    return figure
