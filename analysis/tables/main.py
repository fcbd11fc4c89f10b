"""`grid`: scores of every checkpoint with the published main table (Table 3)."""

from __future__ import annotations

from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run, find_score
from analysis.tables.grid import DASH, Grid, percent_cell, published_cell
from config.model import AnalysisSection
from records.evaluation import RING_LABELS, RINGS, Score
from records.stages import CHECKPOINTS, STAGES

PUBLISHED = ("math500", "aime24", "aime25", "hmmt25")
COLUMNS = {
    **RING_LABELS,
    "math500": "MATH-500",
    "aime24": "AIME24",
    "aime25": "AIME25",
    "hmmt25": "HMMT25",
}
NAMES = {stage.name: stage.label for stage in STAGES}


def grid(run: Run, settings: AnalysisSection, reference: Reference) -> Grid:
    """Own rows with intervals over questions; published rows as printed."""
    scores = run.scores()
    own = [[NAMES[c], *_cells(scores, c)] for c in CHECKPOINTS if any(s.checkpoint == c for s in scores)]
    published = [
        [name, *[DASH] * len(RINGS), *[published_cell(value) for value in values]]
        for name, values in reference["table3"]["rows"].items()
    ]
    return Grid(
        name="main",
        title=f"Scores of run {run.name} (preset {run.preset}) and Table 3",
        header=["model", *COLUMNS.values()],
        groups={"this run": own, "published": published},
        note="Percent, avg@k, strict grader; 95% intervals over questions in brackets. Published values carry no "
        "interval; on the 30 questions of AIME24 a score of 80 has one of about 63 to 91. Nothing is set in bold, "
        "because most differences in the published rows are within noise.",
    )


def _cells(scores: list[Score], checkpoint: str) -> list[str]:
    found = [find_score(scores, checkpoint, benchmark) for benchmark in COLUMNS]
    return [percent_cell(s.value, s.low, s.high) if s else DASH for s in found]
