"""Writing the entropy study: JSON, CSV, and the coloured traces."""

from __future__ import annotations

from pathlib import Path

from analysis import entropy
from analysis.entropy_trace import responses_of, trace_page
from analysis.figures.style import save_table
from analysis.runs import BadRun, Run, write_json
from analysis.samples import read_samples, read_tokens


def write_study(run: Run, settings: entropy.Settings, checkpoint: str | None, out: Path) -> Path:
    """Study one checkpoint, compare the stages, write everything into `out`; returns entropy.json.

    Raises:
        BadRun: No token table, or none of that checkpoint.
    """
    files = run.token_files()
    if not files:
        raise BadRun(f"{run.root}: no score/*/tokens.parquet; write one with python -m trainer score")
    chosen = checkpoint or list(files)[-1]
    if chosen not in files:
        raise BadRun(f"{run.root}: no token table of {chosen}; there are: {', '.join(files)}")
    tokens = {name: read_tokens(path) for name, path in files.items()}
    numbers, tables = entropy.study(tokens[chosen], settings)
    tables["quantiles"] = entropy.quantile_table(tokens)
    numbers |= {"checkpoint": chosen, "stages": entropy.stage_changes(tokens, settings)}
    for name, table in tables.items():
        save_table(table, out / f"{name}.csv")
    samples = run.samples_files().get(chosen)
    rows = read_samples(samples, ["benchmark", "problem", "sample", "turns"]) if samples else []
    page = trace_page(tokens[chosen], settings, responses_of(rows), run.name)
    (out / "trace.html").write_text(page, encoding="utf-8")
    write_json(out / "entropy.json", numbers)
    return out / "entropy.json"
