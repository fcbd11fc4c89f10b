"""`grid`: beyond mathematics: GPQA-Diamond, BFCL v3 and IFEval's four numbers with the published ones (Table 5)."""

from __future__ import annotations

from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run, find_score
from analysis.tables.grid import DASH, Grid, percent_cell, published_cell
from analysis.tables.main import NAMES
from config.model import AnalysisSection
from records.evaluation import Score
from records.stages import CHECKPOINTS

COLUMNS: dict[str, tuple[str, str, str]] = {
    "GPQA-Diamond": ("gpqa_diamond", "avg@", "strict"),
    "BFCL v3": ("bfcl_v3", "overall_v3", "strict"),
    "BFCL v3, prompt": ("bfcl_v3_prompt", "overall_v3", "strict"),
    "IFEval": ("ifeval", "avg@", "strict"),
    "IFEval, loose": ("ifeval", "avg@", "loose"),
    "IFEval, instructions": ("ifeval", "instructions@", "strict"),
    "IFEval, instructions, loose": ("ifeval", "instructions@", "loose"),
}
"""Column -> benchmark, metric, grader. BFCL's number is the weighted v3 score, not the plain mean over entries."""
PUBLISHED = {"GPQA-Diamond": "gpqa_diamond", "BFCL v3": "bfcl_v3", "IFEval": "ifeval"}


def grid(run: Run, settings: AnalysisSection, reference: Reference) -> Grid:
    """Own rows with intervals; published rows as printed."""
    scores = run.scores()
    own = [[NAMES[checkpoint], *_cells(scores, checkpoint)] for checkpoint in CHECKPOINTS]
    columns = reference["table5"]["columns"]
    published = [
        [
            name,
            *[
                published_cell(values[columns.index(PUBLISHED[c])]) if c in PUBLISHED else DASH
                for c in COLUMNS
            ],
        ]
        for name, values in reference["table5"]["rows"].items()
    ]
    return Grid(
        name="beyond",
        title=f"Beyond mathematics: run {run.name} and Table 5",
        header=["model", *COLUMNS],
        groups={
            "this run": [row for row in own if any(cell != DASH for cell in row[1:])],
            "published": published,
        },
        note="Percent with 95% intervals. IFEval: all instructions of a prompt followed, strict, unless the column "
        "states otherwise. BFCL: the weighted score of all 17 categories; the paper does not name its mode.",
    )


def _cells(scores: list[Score], checkpoint: str) -> list[str]:
    found = [
        find_score(scores, checkpoint, benchmark, metric=metric, grader=grader)
        for benchmark, metric, grader in COLUMNS.values()
    ]
    return [percent_cell(s.value, s.low, s.high) if s else DASH for s in found]
