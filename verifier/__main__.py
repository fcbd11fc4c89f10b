"""`python -m verifier COMMAND`: grade answers, list benchmarks, print the policies, evaluate, regrade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from config.command import one_line_errors
from evaluation.command import evaluate
from records.verdict import Verdict, VerdictKind

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Grades answers; benchmarks; evaluation of a checkpoint.",
)


class Graders(StrEnum):
    STRICT = "strict"
    RSTAR_COMPAT = "rstar_compat"
    BOTH = "both"


def fail(message: str) -> typer.Exit:
    """Bad input: one line on standard error and exit status 2."""
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(2)


def require_folder(data: Path | None) -> None:
    """A mistyped data folder is an error, not a folder without benchmarks."""
    if data is not None and not data.is_dir():
        raise fail(f"--data {data} is not a folder")


def keep_out(out: Path, overwrite: bool) -> None:
    """Refuse, before any work, to replace a file of the user's."""
    from records.finished_results import refuse_to_replace

    with one_line_errors():
        refuse_to_replace(out, overwrite=overwrite)


@app.command()
@one_line_errors()
def grade(
    gold: Annotated[str | None, typer.Option(help="The right answer.")] = None,
    answer: Annotated[str | None, typer.Option(help="Response text; a bare answer is boxed first.")] = None,
    cases: Annotated[Path | None, typer.Option(help="JSONL of {id, gold, pred}.")] = None,
    grader: Annotated[Graders, typer.Option(help="Which grader.")] = Graders.STRICT,
    integer_only: Annotated[bool, typer.Option(help="The AIME rule: integer literals only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One verdict JSON per line.")] = False,
) -> None:
    """Grade one answer, or each line of a file; one verdict per line and grader."""
    from verifier.graders.grade import grade_answer
    from verifier.graders.policy import GradePolicy, GraderName

    policy = GradePolicy(integer_only=integer_only)
    names = list(GraderName) if grader is Graders.BOTH else [GraderName(grader.value)]
    if cases is None and (gold is None or answer is None):
        raise fail("give --gold and --answer, or --cases FILE")
    if cases is not None and GraderName.RSTAR_COMPAT in names:
        from verifier.graders.workers import shared_pool

        shared_pool().start()
    if cases is not None and not _holds_lines(cases):
        raise fail(f"{cases}: holds no cases; each line is a JSON object with id, gold and pred")
    rows = _cases(cases) if cases is not None else iter([("", gold or "", _boxed(answer or ""), "")])
    for id, wanted, response, fault in rows:
        for name in names:
            if fault:
                verdict = _unparsed(id, fault, name.value)
            else:
                verdict = grade_answer(wanted, response, policy, id=id, grader=name)
            _show(verdict.to_json(), as_json)


def _boxed(answer: str) -> str:
    marked = any(mark in answer for mark in ("\\boxed", "\\fbox", "<answer>")) or "answer:" in answer.lower()
    return answer if marked or not answer.strip() else f"\\boxed{{{answer}}}"


def _holds_lines(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return any(line.strip() for line in lines)
    except OSError as error:
        raise fail(f"cannot read {path}: {error.strerror}") from None


def _cases(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """(id, gold, response, fault) per line; a line that cannot be graded has a fault.

    A file in which no line can be graded ends the command after its rows.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise fail(f"cannot read {path}: {error.strerror}; give a JSONL file of id, gold and pred") from None
    good = False
    for number, raw in enumerate(data.split(b"\n"), 1):
        if not raw.strip():
            continue
        case = _case(number, raw)
        good = good or not case[3]
        yield case
    if not good:
        raise fail(f"{path}: no line is a JSON object with gold and pred; give a JSONL file of cases")


def _case(number: int, raw: bytes) -> tuple[str, str, str, str]:
    try:
        row = json.loads(raw.decode("utf-8"))
        id = str(row.get("id", number)) if isinstance(row, dict) else str(number)
        gold, pred = row["gold"], row["pred"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"line {number}: no JSON object with gold and pred ({type(error).__name__})"
        return str(number), "", "", what
    if not isinstance(gold, str | int) or not isinstance(pred, str):
        return id, "", "", f"line {number}: gold and pred must be strings"
    return id, str(gold), pred, ""


def _unparsed(id: str, reason: str, grader: str) -> Verdict:
    return Verdict(id=id, verdict=VerdictKind.UNPARSED, rule=reason, grader=grader)


def _show(record: dict[str, object], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False))
        return
    typer.echo(
        f"{record['id'] or '-'}\t{record['verdict']}\t{record['extracted'] or ''}\t{record['rule']}\t{record['grader']}"
    )


@app.command()
@one_line_errors()
def policies(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Print what the graders decide where practice differs."""
    from verifier.graders.policy import RULES

    if as_json:
        typer.echo(json.dumps(RULES, indent=1))
        return
    for name, rule in RULES.items():
        typer.echo(f"{name:16} {rule}")


@app.command()
@one_line_errors()
def benchmarks(
    data: Annotated[Path | None, typer.Option(help="Data folder.", envvar="RSTAR2_DATA")] = None,
    hub: Annotated[bool, typer.Option(help="Also try the hub for what the folder lacks.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """List the benchmarks: size, digest, source, reachable or how to get it."""
    from verifier.benchmarks.availability import listing

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
    seed: Annotated[int, typer.Option(help="Of the random answerer.")] = 0,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Answer each benchmark with its own golds, and at random: what the graders make of it."""
    from evaluation.benchmark_controls import run_controls
    from verifier.benchmarks import ALL, DataUnavailable, WrongData
    from verifier.benchmarks import benchmark as named

    require_folder(data)
    try:
        chosen = (
            [named(name) for name in benchmark] if benchmark else [b for b in ALL if (data / b.file).exists()]
        )
        if not chosen:
            raise fail(f"--data {data} holds the file of no benchmark; see python -m verifier benchmarks")
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
        raise fail(f"--data {data}: {error}") from None


@app.command()
@one_line_errors()
def contamination(
    train: Annotated[
        Path, typer.Option(help="Training set: JSONL with problem, question or prompt, and answer.")
    ],
    benchmark: Annotated[list[str], typer.Option(help="Benchmark; may be repeated.")],
    data: Annotated[Path | None, typer.Option(help="Data folder.", envvar="RSTAR2_DATA")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One overlap per line.")] = False,
) -> None:
    """Find benchmark problems in a training set and show the matching span. Exit status 1 if there are any."""
    from evaluation.decontamination import Entry, overlaps, read_entries
    from verifier.benchmarks import DataUnavailable, WrongData
    from verifier.benchmarks import benchmark as named

    require_folder(data)
    found = 0
    try:
        entries = read_entries(train)
        if not entries:
            raise fail(f"{train}: holds no problems, so nothing can be said of them")
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
        raise fail(str(error)) from None
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
    """Turn another harness's samples into rows of ours; their golds are graded by our graders."""
    from evaluation.importers import Harness, ImportFailed, import_samples
    from records.finished_results import write_whole
    from verifier.benchmarks import NAMES
    from verifier.benchmarks import benchmark as named
    from verifier.graders.grade import grade_answer
    from verifier.graders.policy import EVAL_GRADERS, GradePolicy

    if harness not in list(Harness):
        raise fail(f"--harness {harness}: must be one of {', '.join(Harness)}")
    policy = named(benchmark).policy if benchmark in NAMES else GradePolicy()
    keep_out(out, overwrite)
    try:
        rows = import_samples(file, Harness(harness), run=run, checkpoint=checkpoint, benchmark=benchmark)
    except ImportFailed as error:
        raise fail(str(error)) from None
    if not rows:
        raise fail(f"{file}: holds no samples")
    right, lines = 0, []
    for row in rows:
        text, id = row.trajectory.turns[0].text, row.trajectory.problem
        for name in EVAL_GRADERS:
            verdict = grade_answer(row.gold, text, policy, id=id, grader=name).without_clock()
            row.trajectory.verdicts[name.value] = verdict
        right += row.trajectory.verdicts["strict"].verdict is VerdictKind.CORRECT
        lines.append(json.dumps(row.trajectory.to_json(), ensure_ascii=False) + "\n")
    with one_line_errors():
        write_whole(out, "".join(lines))
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
    """Grade the same text again with every grader of its benchmark; list every verdict that flips."""
    from evaluation.regrading import RegradeError, regrade_file

    require_folder(data)
    if out is not None:
        keep_out(out, overwrite)
    try:
        with one_line_errors():
            report = regrade_file(samples, golds=golds, data=data, out=out, seed=seed)
    except RegradeError as error:
        raise fail(str(error)) from None
    if as_json:
        typer.echo(json.dumps(report.to_json()))
        return
    for flip in report.flips:
        key = f"{flip.benchmark}\t{flip.problem}\t{flip.sample}\t{flip.grader}"
        typer.echo(f"{key}\t{flip.before} -> {flip.after}\t{flip.rule}")
    counts = f"{report.num_samples} samples, {len(report.flips)} flips"
    typer.echo(f"{counts}, {report.num_disagreements} where the graders disagree")


app.command("evaluate")(evaluate)


if __name__ == "__main__":
    app(prog_name="python -m verifier")
