"""`write_study`: writes the entropy study as JSON, CSV and coloured traces."""

from __future__ import annotations

from pathlib import Path

from analysis.entropy import entropy
from analysis.entropy.controls import contrasts_of
from analysis.entropy.entropy_trace import choose_traces, responses_of, trace_page
from analysis.inputs.finite import finite
from analysis.inputs.runs import Run
from analysis.inputs.samples import read_scored, read_turns
from analysis.table_file import save_table
from config.model import AnalysisSection
from records.errors import ConfigError
from records.files import write_json, write_text
from records.run_folder import ENTROPY


def write_study(run: Run, settings: AnalysisSection, checkpoint: str | None, out: Path) -> Path:
    """Study one checkpoint, compare the stages, write everything into `out`; returns entropy.json.

    Raises:
        ConfigError: No token table, or none of that checkpoint.
    """
    files = run.token_files()
    if not files:
        raise ConfigError(f"{run.root}: no score/*/tokens.parquet; write one with python -m trainer score")
    chosen = checkpoint or list(files)[-1]
    if chosen not in files:
        raise ConfigError(f"{run.root}: no token table of {chosen}; there are: {', '.join(files)}")
    tokens = {name: read_scored(run, name) for name in files}
    numbers, tables = entropy.study(tokens[chosen], settings)
    tables["quantiles"] = entropy.quantile_table(tokens)
    studied = entropy.choose_trajectories(tokens[chosen], settings.num_trajectories, settings.seed)
    numbers |= contrasts_of(studied, settings)
    numbers |= {"checkpoint": chosen, "stages": entropy.stage_changes(tokens, settings)}
    samples = run.samples_files().get(chosen)
    keys = {key for _, key in choose_traces(tokens[chosen], settings.seed)}
    rows = read_turns(samples, keys) if samples else []
    page = trace_page(tokens[chosen], settings, responses_of(rows), run.name)
    for name, table in tables.items():
        save_table(table, out / f"{name}.csv")
    write_text(out / "trace.html", page)
    write_json(out / ENTROPY, finite(numbers))
    return out / ENTROPY
