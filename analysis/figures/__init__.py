"""The figures of the report, one module each, in the order of the page."""

from __future__ import annotations

from analysis.figures import (
    arms,
    cost_axes,
    differences,
    entropy_histogram,
    entropy_profile,
    sandbox,
    scheduler,
    scores,
    selection_pressure,
    training_curves,
)

PLOTS = (
    differences.PLOT,
    scores.PLOT,
    training_curves.PLOT,
    cost_axes.PLOT,
    arms.PLOT,
    selection_pressure.PLOT,
    entropy_histogram.PLOT,
    entropy_profile.PLOT,
    scheduler.PLOT,
    sandbox.PLOT,
)
