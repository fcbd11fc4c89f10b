"""`python -m bench`: every measure with a goal, as one table or one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from bench.machine import Busy, versions
from bench.measures import MEASURES, SANDBOX, Program, Record
from bench.table import row, table

_QUIET_CORES = 0.1
"""Most CPU cores that other processes may use, on average, on a machine that counts as quiet."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def run(program: Program, arguments: Sequence[str]) -> Record | str:
    """Run one program; return its record, or why there is none."""
    command = [sys.executable, "-m", program.module, *program.arguments, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    line = (done.stdout.strip().splitlines() or ["no output"])[-1]
    if done.returncode:
        return f"{program.module} ended with status {done.returncode}"
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return line


@app.command()
def main(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with every record.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="One round of each: a few minutes.")] = False,
    against: Annotated[
        list[str] | None,
        typer.Option(help="A running peer of the sandbox (`python -m sandbox bench --help`)."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A program, such as decode; may be repeated.")
    ] = None,
) -> None:
    """Measure every speed that has a goal, one program after the other, and print one table."""
    programs = list(dict.fromkeys(measure.program for measure in MEASURES))
    chosen = [p for p in programs if not only or p.module.removeprefix("bench.") in only]
    load, before = os.getloadavg()[0], Busy.now()
    records: dict[str, Record | str] = {}
    for program in chosen:
        typer.echo(f"measuring: {program.module}", err=True)
        peers = [f"--against={name}" for name in against or ()] if program == SANDBOX else []
        records[program.module] = run(program, [*(program.quick if quick else ()), *peers])
    others = Busy.now().cores_of_others(before)
    rows = [row(m, records[m.program.module]) for m in MEASURES if m.program in chosen]
    machine = {
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "cores_of_others": others,
        "quiet": others <= _QUIET_CORES,
    }
    if as_json:
        record = {
            "versions": versions(),
            "machine": machine,
            "quick": quick,
            "measures": rows,
            "records": records,
        }
        typer.echo(json.dumps(record))
        return
    typer.echo("\n".join(table(rows)))
    typer.echo(", ".join(f"{name} {value}" for name, value in versions().items()))
    if not machine["quiet"]:
        typer.echo(
            f"not a quiet machine: other processes used {others:.1f} cores, load {load:.1f} at the start"
        )


if __name__ == "__main__":
    app(prog_name="python -m bench")
