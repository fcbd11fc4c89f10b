"""`app`: the commands of `python -m analysis`. Exit status 0 done, 1 a regression, 2 wrong input."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from config.command import one_line_errors
from config.commands import ANALYSIS
from config.options import Source, configured
from records.run_folder import CLAIMS, ENTROPY, PAGE, REPORT, RunFolder
from records.stages import LAST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.claims.endpoints import Claim
    from analysis.inputs.runs import Run
    from config.model import AnalysisSection

REFERENCE = Path(__file__).parents[1] / "results" / "reference"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Statistics, entropy, claims, figures, tables and report of a run, from stored results only.",
)

RunOption = Annotated[Path, typer.Option("--run", help="Run folder, results/<run>.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder to write into; made when absent.")]
ReferenceOption = Annotated[
    Path, typer.Option("--reference", help="Folder with paper.yaml and claims.yaml.", show_default=False)
]


def _settings(source: Source) -> AnalysisSection:
    view, _ = source.read(ANALYSIS)
    return view.analysis


def _reference(folder: Path) -> dict[str, Any]:
    from analysis.inputs.reference import read_reference

    return read_reference(folder)


def _open(run: Path) -> Run:
    """Return a run after checking that its evaluations agree."""
    from analysis.inputs.lineage import check_run
    from analysis.inputs.runs import Run

    opened = Run.open(run)
    check_run(opened)
    return opened


@app.command()
@configured
def entropy(
    source: Source,
    run: RunOption,
    out: OutOption,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Checkpoint of the study and the traces; default: the last one scored."),
    ] = None,
) -> None:
    """Write forking, reflection and coding tokens: entropy.json, one CSV per table, trace.html."""
    from analysis.entropy.entropy_files import write_study
    from analysis.inputs.lineage import write_lineage

    opened, settings = _open(run), _settings(source)
    written = write_study(opened, settings, checkpoint, out)
    write_lineage(opened, out, "entropy", [ENTROPY])
    typer.echo(f"wrote {written}")


@app.command()
@configured
def figures(
    source: Source,
    run: RunOption,
    out: OutOption,
    reference: ReferenceOption = REFERENCE,
    only: Annotated[list[str] | None, typer.Option(help="Only this figure; repeatable.")] = None,
) -> None:
    """Write every figure as PDF, PNG and SVG, and the CSV of its data."""
    from analysis.drawing.plot import write
    from analysis.figures import PLOTS
    from analysis.inputs.lineage import write_lineage
    from records.errors import ConfigError
    from records.manifest import MANIFEST, list_folder

    known = [plot.name for plot in PLOTS]
    unknown = sorted(set(only or []) - set(known))
    if unknown:
        raise ConfigError(f"--only {unknown[0]}: no such figure; known: {', '.join(known)}")
    opened, settings, numbers = _open(run), _settings(source), _reference(reference)
    rows = [write(plot, opened, settings, numbers, out) for plot in PLOTS if not only or plot.name in only]
    if not only:
        list_folder(out, {"stage": "figures", "parent": None, "data": None, "facts": {"plots": rows}})
        write_lineage(opened, out, "figures", [MANIFEST])
    absent = [row["name"] for row in rows if not row["drawn"]]
    typer.echo(
        f"wrote {len(rows)} figures to {out}" + (f"; no data for {', '.join(absent)}" if absent else "")
    )


@app.command()
@configured
def tables(
    source: Source,
    run: RunOption,
    out: OutOption,
    reference: ReferenceOption = REFERENCE,
) -> None:
    """Write the tables with the published rows, as CSV, Markdown and LaTeX."""
    from analysis.tables import GRIDS
    from analysis.tables.grid import write
    from records.manifest import list_folder

    opened, settings, numbers = _open(run), _settings(source), _reference(reference)
    for make in GRIDS:
        write(make(opened, settings, numbers), out)
    list_folder(out, {"stage": "tables", "parent": None, "data": None})
    typer.echo(f"wrote {len(GRIDS)} tables to {out}")


@app.command()
@configured
def claims(
    source: Source,
    run: Annotated[Path | None, typer.Option("--run", help="Run folder, results/<run>.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write into; made when absent.")] = None,
    reference: ReferenceOption = REFERENCE,
    arms: Annotated[
        Path | None,
        typer.Option(
            "--arms", help="Folder of arm records: judge the claims about arms alone, with all of them."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="List the verdicts that each row can reach on invented results; no run."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """The verdict on every claim: claims.json and claims.csv. With --check, whether each row can fall either way."""
    from analysis.claims.claims import about_arms, judge
    from analysis.claims.claims_files import write_claims
    from analysis.claims.effects import measured_on, results_of
    from analysis.claims.endpoints import read_claims
    from analysis.inputs.lineage import write_lineage
    from records.errors import ConfigError

    settings, numbers = _settings(source), _reference(reference)
    claimed = read_claims(reference / "claims.yaml")
    if check:
        _check_claims(claimed, numbers, settings)
        return
    if run is None or out is None:
        raise ConfigError("claims: give --run and --out, or --check")
    opened = _open(run)
    judged = claimed if arms is None else about_arms(claimed)
    rows = judge(
        judged,
        measured_on(results_of(opened, settings, numbers, judged, arms), settings),
        preset=opened.preset,
        alpha=1 - settings.confidence,
    )
    write_claims(rows, out)
    write_lineage(opened, out, "claims", [CLAIMS])
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], sort_keys=True))
        return
    for row in rows:
        typer.echo(f"{row.verdict:15} {row.id}")


def _check_claims(claimed: Sequence[Claim], numbers: dict[str, Any], settings: AnalysisSection) -> None:
    """Print the reachable verdicts of each row; exit status 1 when a row lacks one that its endpoint allows."""
    from analysis.claims.invented import lacking, reached

    short = 0
    for claim in claimed:
        if claim.endpoint.kind == "none":
            typer.echo(f"{claim.id}: no endpoint, no verdict")
            continue
        found = reached(claim, numbers, settings)
        missing = lacking(claim, found)
        short += bool(missing)
        words = ", ".join(sorted(found))
        typer.echo(f"{claim.id}: {words}" + (f"; never {', '.join(sorted(missing))}" if missing else ""))
    if short:
        typer.echo(f"{short} rows cannot fall each way")
        raise typer.Exit(1)


@app.command()
@configured
def report(
    source: Source,
    run: RunOption,
    out: OutOption,
    reference: ReferenceOption = REFERENCE,
    figures_dir: Annotated[
        Path | None, typer.Option("--figures", help="Default: figures in the run.")
    ] = None,
    claims_file: Annotated[
        Path | None, typer.Option("--claims", help="Default: claims/claims.json in the run.")
    ] = None,
    entropy_file: Annotated[
        Path | None, typer.Option("--entropy", help="Default: entropy/entropy.json in the run.")
    ] = None,
) -> None:
    """Write one self-contained page, index.html, and report.json."""
    from analysis.report.parts import Parts
    from analysis.report.report import build

    folder = RunFolder(run)
    parts = Parts(
        figures=figures_dir or folder.figures,
        claims=claims_file or folder.verdicts_on_claims,
        entropy=entropy_file or folder.entropy_numbers,
    )
    build(_open(run), parts, _settings(source), _reference(reference), out)
    typer.echo(f"wrote {out / PAGE} and {out / REPORT}")


@app.command()
@configured
def ablations(
    source: Source,
    run: RunOption,
    out: OutOption,
    arms: Annotated[
        Path | None, typer.Option("--arms", help="Folder of arm records; default: arms in the run.")
    ] = None,
    grid: Annotated[
        Path | None,
        typer.Option(
            "--grid", help="The sampling grid: its folder, or pass_at_k.csv; default: grid in the run."
        ),
    ] = None,
) -> None:
    """Write the ablation page from stored arm records and the sampling grid, with figures and endpoints.csv."""
    from analysis.experiments.ablations import write_ablations
    from analysis.experiments.arms import records_in
    from analysis.experiments.sampling_grid import table_of

    settings = _settings(source)
    folder = RunFolder(run)
    passes = table_of(grid or folder.grid, settings)
    page = write_ablations(records_in(arms or folder.arms), passes, settings, out, run.name)
    typer.echo(f"wrote {page}")


@app.command()
@configured
def compare(
    source: Source,
    run_a: Annotated[Path, typer.Argument(help="The earlier run.")],
    run_b: Annotated[Path, typer.Argument(help="The later run.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for comparison.json and comparison.md.")
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint of both runs.")] = LAST,
    margin: Annotated[float, typer.Option(help="Half width of 'equivalent', a fraction.")] = 0.02,
    fail_on: Annotated[
        str | None, typer.Option(help="regression: exit 1 when a benchmark got worse.")
    ] = None,
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Compare what both share even if other settings differ.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Compare two runs, paired; 1 on a regression with --fail-on regression, 2 when they are not comparable."""
    from analysis.comparison.compare import compare_runs, to_markdown
    from analysis.inputs.finite import finite
    from analysis.inputs.runs import Run
    from records.errors import ConfigError
    from records.files import write_json, write_text

    if fail_on not in (None, "regression"):
        raise ConfigError(f"--fail-on {fail_on}: the only value is regression")
    settings = _settings(source)
    result = compare_runs(
        Run.open(run_a),
        Run.open(run_b),
        checkpoint,
        settings,
        margin=margin,
        allow_mismatch=allow_mismatch,
    )
    if out is not None:
        write_json(out / "comparison.json", finite(result))
        write_text(out / "comparison.md", to_markdown(result))
    typer.echo(json.dumps(finite(result), sort_keys=True) if as_json else to_markdown(result))
    if fail_on and result["regression"]:
        raise typer.Exit(1)


@app.command()
@one_line_errors()
def verify(run: RunOption, out: Annotated[Path, typer.Option("--out", help="JSON file to write.")]) -> None:
    """Check digests, lineage, metrics and controls of a run; write the verdicts, and never fail on them."""
    from analysis.report.verify import to_json
    from analysis.report.verify import verify as look
    from records.files import write_json

    checks = look(run)
    write_json(out, to_json(checks))
    for check in checks:
        typer.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}")


@app.command()
@one_line_errors()
def waterfall(run: RunOption) -> None:
    """Print the CPU-seconds of a run by job and by kind."""
    from analysis.report import waterfall as page

    for line in page.waterfall(page.read_usage(run)):
        typer.echo(line)


@app.command()
@one_line_errors()
def gate(
    verdicts: Annotated[Path, typer.Argument(help="verify.json.")],
    out: Annotated[Path, typer.Option("--out", help="Written when every check holds.")],
) -> None:
    """Exit with status 1 when a check of verify.json fell short."""
    from analysis.report.verify import judge
    from records.files import write_json

    short = judge(verdicts)
    for line in short:
        typer.echo(f"fell short: {line}", err=True)
    if short:
        raise typer.Exit(1)
    write_json(out, {"ok": True})
