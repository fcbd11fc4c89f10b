"""The section `analysis` of tests: few draws, seed 0."""

from __future__ import annotations

from config.model import AnalysisSection

SETTINGS = AnalysisSection(
    confidence=0.95, bootstrap_draws=300, top_entropy_frac=0.2, num_trajectories=64, seed=0
)
