"""`app`: the commands run, cases, doctor and bench. Each command imports heavy modules itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from config.command import one_line_errors
from records.repository_module import run_bench_module

if TYPE_CHECKING:
    from records.tool_call import ToolCall
    from sandbox.client import Sandbox

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Run untrusted Python in isolated child processes.",
)

Workers = Annotated[int, typer.Option(help="CPU cores to fill.")]
Preload = Annotated[str, typer.Option(help="Modules imported beforehand, comma separated; '' for none.")]
MinIsolation = Annotated[
    str, typer.Option(help="Refuse to start below this level: none, limits, syscalls, files.")
]


def fail(text: str) -> NoReturn:
    """Print one line and exit with status 2: the input or the machine is at fault."""
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(2)


def _open(workers: int, preload: str, min_isolation: str, **others: Any) -> Sandbox:
    from sandbox.client import Sandbox, SandboxError
    from sandbox.settings import SettingsError

    names = tuple(name.strip() for name in preload.split(",") if name.strip())
    try:
        return Sandbox(workers=workers, preload=names, min_isolation=min_isolation, **others)
    except (SandboxError, SettingsError) as error:
        fail(str(error))


@app.command()
@one_line_errors()
def run(
    file: Annotated[Path | None, typer.Argument(help="Program to run; - or none: standard input.")] = None,
    code: Annotated[str | None, typer.Option(help="Program text, instead of a file.")] = None,
    stdin: Annotated[str, typer.Option(help="Standard input of the program.")] = "",
    timeout: Annotated[float, typer.Option(help="Wall seconds; the CPU limit is the same.")] = 10.0,
    preload: Preload = "numpy,sympy",
    min_isolation: MinIsolation = "files",
) -> None:
    """Run one program; print its ToolResult as JSON. Exit status 0 if the program ran, however it ended."""
    from records.tool_call import Limits, ToolCall

    program = code if code is not None else _read_program(file)
    call = ToolCall(id="run", code=program, stdin=stdin, limits=Limits(wall_s=timeout, cpu_s=timeout))
    with _open(1, preload, min_isolation) as sandbox:
        result = sandbox.run(call)
    _print(result.to_json())
    if result.status.is_infrastructure:
        raise typer.Exit(1)


def _read_program(file: Path | None) -> str:
    try:
        data = sys.stdin.buffer.read() if file is None or str(file) == "-" else file.read_bytes()
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}; give a readable file, or --code TEXT")
    return data.decode("utf-8", "surrogateescape")


@app.command()
@one_line_errors()
def cases(
    file: Annotated[
        Path,
        typer.Argument(help="One JSON object per line: {id, code, stdin?, session?, timeout?, expected?}."),
    ],
    workers: Workers = 2,
    preload: Preload = "numpy,sympy",
    min_isolation: MinIsolation = "files",
    check: Annotated[
        bool, typer.Option(help="Compare each result with `expected`; exit status 1 if any differs.")
    ] = False,
) -> None:
    """Run every line of a file; print one ToolResult per line, in order. `timeout`: wall and CPU seconds."""
    lines = list(_read_cases(file))
    if not lines:
        fail(f"{file} holds no case; give a UTF-8 file with one JSON object per line")
    with _open(workers, preload, min_isolation) as sandbox:
        futures = [sandbox.submit(call) for call, _ in lines]
        num_short = 0
        for (call, expected), future in zip(lines, futures, strict=True):
            result = future.result()
            _print(result.to_json())
            if check and expected is not None:
                from sandbox.case_check import fault_of_result

                fault = fault_of_result(result, expected)
                if fault:
                    num_short += 1
                    typer.echo(f"{call.id}: {fault}", err=True)
    if num_short:
        typer.echo(f"{num_short} of {len(lines)} cases did not end as expected", err=True)
        raise typer.Exit(1)


def _read_cases(file: Path) -> Iterator[tuple[ToolCall, dict[str, Any] | None]]:
    from records.tool_call import Limits, ToolCall

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {file}: {error}; give a UTF-8 file with one JSON object per line")
    seen: set[str] = set()
    # JSON lines end at a newline only: splitlines would also cut inside a text, at U+2028 and others.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{file} line {number}"
        try:
            record = json.loads(line)
            call_id, code = str(record["id"]), record["code"]
            seconds = float(record.get("timeout", 10.0))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            fail(f"{where} is not a case ({error!r}); give {{id, code, stdin?, session?, timeout?}}")
        if call_id in seen:
            fail(f"{where} repeats id {call_id!r}; ids must be unique in the file")
        seen.add(call_id)
        limits = Limits(wall_s=seconds, cpu_s=seconds)
        call = ToolCall(
            id=call_id, code=code, stdin=record.get("stdin", ""), session=record.get("session"), limits=limits
        )
        yield call, record.get("expected")


@app.command()
@one_line_errors()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    preload: Preload = "numpy,sympy",
    min_isolation: MinIsolation = "files",
) -> None:
    """Show each isolation layer, with the reason if it is missing; run one call. Exit status 1 below the minimum."""
    from records.tool_call import ToolCall
    from sandbox.layers import Level

    with _open(1, preload, "none") as sandbox:
        started = sandbox.started
        result = sandbox.run(ToolCall(id="doctor", code="1 + 1"))
    if min_isolation not in list(Level):
        fail(f"min_isolation is {min_isolation!r}; give one of {', '.join(Level)}")
    levels = list(Level)
    is_enough = levels.index(Level(started["level"])) >= levels.index(Level(min_isolation))
    if as_json:
        _print(
            {
                "level": started["level"],
                "enough": is_enough,
                "layers": started["states"],
                "call": result.to_json(),
            }
        )
    else:
        for state in started["states"]:
            mark = "used   " if state["used"] else "missing"
            typer.echo(f"{mark}  {state['layer']:<16} {state['why']}")
        typer.echo(
            f"level: {started['level']} (required: {min_isolation}); a test call ended as {result.status}"
        )
    if not is_enough or result.value != "2":
        raise typer.Exit(1)


def _print(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def bench(context: typer.Context) -> None:
    """Measure throughput, latency and losses on the standard workload (`bench.sandbox`, not installed)."""
    raise typer.Exit(run_bench_module("bench.sandbox", context.args))
