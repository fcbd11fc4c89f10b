"""`python -m verifier COMMAND`: grade answers, print the policies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from config.command import one_line_errors
from records.verdict import Verdict, VerdictKind

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Grades answers.",
)


class Graders(StrEnum):
    STRICT = "strict"
    RSTAR_COMPAT = "rstar_compat"
    BOTH = "both"


def fail(message: str) -> typer.Exit:
    """Report bad input: one line on standard error and exit status 2."""
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(2)


def require_folder(data: Path | None) -> None:
    """Refuse a path that is no folder, so that a typing error does not look like a folder without benchmarks."""
    if data is not None and not data.is_dir():
        raise fail(f"--data {data} is not a folder")


def keep_out(out: Path, overwrite: bool) -> None:
    """Refuse to replace an existing file, before any work."""
    from records.finished_results import refuse_to_replace

    with one_line_errors():
        refuse_to_replace(out, overwrite=overwrite)


@app.command()
@one_line_errors()
def grade(
    gold: Annotated[str | None, typer.Option(help="The right answer.")] = None,
    answer: Annotated[str | None, typer.Option(help="Response text; a bare answer is boxed first.")] = None,
    cases: Annotated[Path | None, typer.Option(help="JSONL file of {id, gold, pred}.")] = None,
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
    for id, expected, response, fault in rows:
        for name in names:
            if fault:
                verdict = _unparsed(id, fault, name.value)
            else:
                verdict = grade_answer(expected, response, policy, id=id, grader=name)
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
    """Return (id, gold, response, fault) per line; a line that cannot be graded has a fault.

    If no line of the file can be graded, the command ends after its rows.
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
    """Print the decisions of the graders where practice differs."""
    from verifier.graders.policy import RULES

    if as_json:
        typer.echo(json.dumps(RULES, indent=1))
        return
    for name, rule in RULES.items():
        typer.echo(f"{name:16} {rule}")


if __name__ == "__main__":
    app(prog_name="python -m verifier")
