"""`ReportRecord`: report.json, which the report writes and the last lines of a run read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.claims.claims import ClaimVerdict
from records.evaluation import Score
from records.stored import Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRecord(Stored):
    """The numbers behind the page."""

    run: str
    preset: str
    phases_s: dict[str, float]
    """Seconds of each phase; phases may overlap."""
    wall_s: float | None
    """Seconds since the run was started; None when the workflow did not start it."""
    scores: list[Score]
    """Every score, without its outcomes."""
    claims: list[ClaimVerdict]
    provenance: dict[str, Any]
    """Manifests, builds and configuration as JSON, shown leaf by leaf."""
