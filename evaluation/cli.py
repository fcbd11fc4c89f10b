"""`python -m evaluation COMMAND`: sample and grade a checkpoint, regrade stored samples, run experiment arms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from config.arms import MAIN, ArmRun, config_of_origin, view_of_arm
from config.command import fail, one_line_errors
from config.commands import ARM, ARM_OF_MAIN, ORIGIN
from config.options import Source, configured
from evaluation.command import evaluate
from records.verdict import VerdictKind

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Evaluates checkpoints on benchmarks; regrades, imports and checks samples; runs experiment arms.",
)

app.command("run")(evaluate)


def require_folder(data: Path | None) -> None:
    """Refuse a path that is no folder, so that a typing error does not look like a folder without benchmarks."""
    if data is not None and not data.is_dir():
        fail(f"--data {data} is not a folder")


def keep_out(out: Path, overwrite: bool) -> None:
    """Refuse to replace an existing file, before any work."""
    from records.finished_results import refuse_to_replace

    with one_line_errors():
        refuse_to_replace(out, overwrite=overwrite)


@app.command()
@one_line_errors()
def benchmarks(
    data: Annotated[Path | None, typer.Option(help="Data folder.", envvar="RSTAR2_DATA")] = None,
    hub: Annotated[bool, typer.Option(help="Also query the hub for missing benchmarks.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """List the benchmarks: size, digest, source, and availability or how to get them."""
    from verifier.availability import listing

    require_folder(data)
    for row in listing(data, hub=hub):
        if as_json:
            typer.echo(json.dumps(row))
        else:
            typer.echo(
                f"{row['name']:24} {row['num_questions']:>5}  {str(row['digest'])[:16]:16}  {row['status']}"
            )


@app.command()
@one_line_errors()
def controls(
    data: Annotated[Path, typer.Option(help="Data folder.", envvar="RSTAR2_DATA")],
    benchmark: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random answerer.")] = 0,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Answer each benchmark with its own golds, and at random, and print the scores of the graders."""
    from evaluation.benchmark_controls import run_controls
    from verifier.benchmarks import ALL, DataUnavailable, WrongData
    from verifier.benchmarks import benchmark as named

    require_folder(data)
    try:
        chosen = (
            [named(name) for name in benchmark] if benchmark else [b for b in ALL if (data / b.file).exists()]
        )
        if not chosen:
            fail(f"--data {data} holds the file of no benchmark; see python -m evaluation benchmarks")
        for declared in chosen:
            for control in run_controls(declared, declared.load(data), seed=seed):
                if as_json:
                    typer.echo(json.dumps(control.to_json()))
                    continue
                share = f"{control.num_correct}/{control.num_questions}"
                typer.echo(f"{control.benchmark:14} {control.answerer:7} {share:>10}  {control.golds or ''}")
                for id, why in control.rejected.items():
                    typer.echo(f"    {id}: {why}")
    except (DataUnavailable, WrongData, ValueError) as error:
        fail(f"--data {data}: {error}")


@app.command()
@one_line_errors()
def decontaminate(
    train: Annotated[
        Path, typer.Option(help="Training set: JSONL with problem, question or prompt, and answer.")
    ],
    benchmark: Annotated[list[str], typer.Option(help="Benchmark; may be repeated.")],
    data: Annotated[Path | None, typer.Option(help="Data folder.", envvar="RSTAR2_DATA")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One overlap per line.")] = False,
) -> None:
    """Find benchmark problems in a training set and show the matching span. Exit status 1 if any are found."""
    from trainer.data.decontamination import Entry, overlaps, read_entries
    from verifier.benchmarks import DataUnavailable, WrongData
    from verifier.benchmarks import benchmark as named

    require_folder(data)
    found = 0
    try:
        entries = read_entries(train)
        if not entries:
            fail(f"{train}: holds no problems, so there is nothing to compare")
        for name in benchmark:
            problems = named(name).load(data)
            asked = [Entry(id=p.id, text=p.prompt, answer=p.answer) for p in problems]
            rows = overlaps(entries, asked)
            found += len(rows)
            for row in rows:
                if as_json:
                    typer.echo(json.dumps({"benchmark": name, **row.to_json()}))
                elif name != "gpqa_diamond":
                    typer.echo(
                        f"{row.benchmark_id}\t{row.train_id}\texact={row.exact}\t{row.span_words}\t{row.span}"
                    )
            exact = sum(row.exact for row in rows)
            typer.echo(
                f"{name}: {len(rows)} of {len(problems)} problems, {exact} of them word for word", err=as_json
            )
    except (DataUnavailable, WrongData, ValueError, OSError) as error:
        fail(str(error))
    raise typer.Exit(1 if found else 0)


@app.command("import")
@one_line_errors()
def import_(
    file: Annotated[Path, typer.Argument(help="Sample file of another harness, JSONL or Parquet.")],
    harness: Annotated[str, typer.Option(help="lm_eval, lighteval or verl.")],
    benchmark: Annotated[str, typer.Option(help="Name of the benchmark.")],
    out: Annotated[Path, typer.Option(help="Samples file to write (JSONL), graded by both graders.")],
    checkpoint: Annotated[str, typer.Option(help="Name of the model.")] = "imported",
    run: Annotated[str, typer.Option(help="Name of the run.")] = "imported",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Convert another harness's samples to rows of this suite, graded by its graders with the file's golds."""
    from evaluation.importers import Harness, ImportFailed, import_samples
    from records.files import write_text
    from records.trajectory_row import to_row
    from verifier.benchmarks import NAMES
    from verifier.benchmarks import benchmark as named
    from verifier.graders.grade import grade_answer
    from verifier.graders.policy import EVAL_GRADERS, GradePolicy

    if harness not in list(Harness):
        fail(f"--harness {harness}: must be one of {', '.join(Harness)}")
    policy = named(benchmark).policy if benchmark in NAMES else GradePolicy()
    keep_out(out, overwrite)
    try:
        rows = import_samples(file, Harness(harness), run=run, checkpoint=checkpoint, benchmark=benchmark)
    except ImportFailed as error:
        fail(str(error))
    if not rows:
        fail(f"{file}: holds no samples")
    right, lines = 0, []
    for row in rows:
        text, id = row.rollout.turns[0].text, row.rollout.problem
        verdicts = {
            name.value: grade_answer(row.gold, text, policy, id=id, grader=name) for name in EVAL_GRADERS
        }
        right += verdicts["strict"].verdict is VerdictKind.CORRECT
        graded = row.rollout.graded(reward=None, verdicts=verdicts)
        lines.append(json.dumps(to_row(graded), ensure_ascii=False) + "\n")
    with one_line_errors():
        write_text(out, "".join(lines))
    typer.echo(f"{len(rows)} samples, {right} correct (strict), written to {out}")


@app.command()
@one_line_errors()
def regrade(
    samples: Annotated[Path, typer.Argument(help="A samples file: JSONL or Parquet of trajectories.")],
    golds: Annotated[
        Path | None, typer.Option(help="JSONL of {id, answer}, for benchmarks that are not reachable.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder.", envvar="RSTAR2_DATA")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the samples with the new verdicts here (JSONL).")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="eval.seed of the evaluation; default: from summary.json beside SAMPLES."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Grade the same text again with every grader of its benchmark; list every changed verdict."""
    from evaluation.regrading import RegradeError, regrade_file

    require_folder(data)
    if out is not None:
        keep_out(out, overwrite)
    try:
        with one_line_errors():
            report = regrade_file(samples, golds=golds, data=data, out=out, seed=seed)
    except RegradeError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps(report.to_json()))
        return
    for flip in report.flips:
        key = f"{flip.benchmark}\t{flip.problem}\t{flip.sample}\t{flip.grader}"
        typer.echo(f"{key}\t{flip.before} -> {flip.after}\t{flip.rule}")
    counts = f"{report.num_samples} samples, {len(report.flips)} flips"
    typer.echo(f"{counts}, {report.num_disagreements} where the graders disagree")


@app.command()
@configured
def origin(
    source: Source, name: Annotated[str, typer.Option(help="An origin of config/experiments/arms.yaml.")]
) -> None:
    """Train an additional SFT checkpoint for experiment arms."""
    view, runtime = source.read(ORIGIN, lambda config: ORIGIN.of(config_of_origin(config, name)))
    from evaluation.experiments.sft_variant import make_origin

    _print_facts(make_origin(name, view, runtime).facts)


@app.command()
@configured
def arm(
    source: Source,
    name: Annotated[str, typer.Option(help="An arm of config/experiments/arms.yaml.")],
    origin: Annotated[str, typer.Option(help="Origin of the SFT checkpoint; main is the run's own.")] = MAIN,
    seed: Annotated[int, typer.Option(help="0 samples with the run's own seed.", min=0)] = 0,
) -> None:
    """Train and test one experiment arm; writes arms/NAME-ORIGIN-SEED.json into the run."""
    run = ArmRun(name, origin, seed)
    view, runtime = source.read(ARM, lambda config: view_of_arm(config, run))
    from evaluation.experiments.arm import run_arm

    _print_facts(run_arm(run, view, runtime).endpoints)


@app.command("arm-of-main")
@configured
def arm_of_main(source: Source) -> None:
    """Summarise the run's own stage 1 as the arm roc_paper with seed 0."""
    _, runtime = source.read(ARM_OF_MAIN)
    from evaluation.experiments.arm import summarise_main

    _print_facts(summarise_main(ArmRun("roc_paper", MAIN, 0), runtime).endpoints)


def _print_facts(facts: dict[str, Any]) -> None:
    typer.echo(json.dumps(facts, sort_keys=True))
