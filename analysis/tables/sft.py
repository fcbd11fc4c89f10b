"""`grid` and `behaviour_grid`: base against SFT (Table 1), and behaviour of answers (the analogue of Table 4)."""

from __future__ import annotations

from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run, find_score
from analysis.inputs.sample_table import graded, read_sample_table, scored_samples
from analysis.tables.grid import DASH, Grid, percent_cell, published_cell
from config.model import AnalysisSection
from records.stages import STAGES, StageKind

BENCHMARKS = {
    "procedural": "procedural",
    "math500": "MATH-500",
    "aime24": "AIME24",
    "aime25": "AIME25",
    "bfcl_v3": "BFCL v3",
    "ifeval": "IFEval",
}
METRICS = {"bfcl_v3": "overall_v3"}
"""Metric of the published number, where it is not an average over questions."""


def grid(run: Run, settings: AnalysisSection, reference: Reference) -> Grid:
    """Own base and SFT rows, the published rows of Table 1."""
    scores = run.scores()
    own = []
    for checkpoint, name in ((stage.name, stage.label) for stage in STAGES if stage.kind is not StageKind.RL):
        found = [
            find_score(scores, checkpoint, benchmark, metric=METRICS.get(benchmark, "avg@"))
            for benchmark in BENCHMARKS
        ]
        if any(found):
            own.append([name, *[percent_cell(s.value, s.low, s.high) if s else DASH for s in found]])
    columns = reference["table1"]["columns"]
    published = [
        [name, *[published_cell(row[columns.index(b)]) if b in columns else DASH for b in BENCHMARKS]]
        for name, row in reference["table1"]["rows"].items()
    ]
    return Grid(
        name="sft",
        title=f"SFT of run {run.name} and Table 1",
        header=["model", *BENCHMARKS.values()],
        groups={"this run": own, "published": published},
        note="Percent, avg@k with 95% intervals over questions. The tiny base has random weights, so its scores show "
        "nothing of what SFT does to a pretrained model.",
    )


def behaviour_grid(run: Run, settings: AnalysisSection, reference: Reference) -> Grid:
    """Mean response tokens, turns, calls, failed calls and truncation per evaluation; published lengths below."""
    own = []
    for name, path in run.samples_files().items():
        frame = graded(scored_samples(read_sample_table(path)))
        for benchmark, part in frame.groupby("benchmark", observed=True):
            calls = int(part["num_calls"].sum())
            right = part[part["verdict_strict"] == "correct"]
            right_calls = int(right["num_calls"].sum())
            own.append(
                [
                    f"{name}: {benchmark}",
                    str(len(part)),
                    f"{part['response_len'].mean():,.0f}",
                    f"{right['response_len'].mean():,.0f}" if len(right) else DASH,
                    f"{part['num_turns'].mean():.2f}",
                    f"{calls / len(part):.2f}",
                    percent_cell(part["num_failed_calls"].sum() / calls) if calls else DASH,
                    percent_cell(right["num_failed_calls"].sum() / right_calls) if right_calls else DASH,
                    percent_cell(float(part["truncated"].mean())),
                ]
            )
    rows = reference["table4"]["rows"].items()
    published = [
        [f"{name}: AIME24 / AIME25", DASH, " / ".join(f"{v:,.0f}" for v in values), *[DASH] * 6]
        for name, values in rows
    ]
    return Grid(
        name="behaviour",
        title=f"Length and tool use in run {run.name} and Table 4",
        header=[
            "evaluation",
            "samples",
            "tokens",
            "tokens, correct",
            "turns",
            "calls",
            "failed calls %",
            "failed, correct %",
            "truncated %",
        ],
        groups={"this run": own, "published": published},
        note="The samples of avg@k: no control, the temperature nearest to 1, none that the suite lost. Tokens of the "
        "response, tool responses included. A failed call could not be parsed, named an unknown "
        "tool, or its code did not end well. Token counts of different tokenizers do not compare.",
    )
