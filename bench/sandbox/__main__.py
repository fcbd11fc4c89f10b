"""`python -m bench.sandbox`: throughput, latency and losses of the sandbox on the standard workload."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from bench.publish import RunOption, publish
from bench.sandbox.command import run_bench
from config.command import fail
from records.errors import UserError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    as_json: Annotated[bool, typer.Option("--json", help="The whole record as JSON.")] = False,
    quick: Annotated[bool, typer.Option(help="Smaller: a few seconds on an idle machine.")] = False,
    workers: Annotated[int, typer.Option(help="CPU cores to fill.")] = 2,
    against: Annotated[
        list[str] | None,
        typer.Option(help="A running peer, code-judge=URL; repeat with other names: code-judge-16=URL."),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="Sections, comma separated, or all: race, levels, session, deadline, waterfall, kills, "
            "offered, starvation, interference, burst, soak. The last ones take minutes and run only when named."
        ),
    ] = "",
    size: Annotated[int | None, typer.Option(min=20, help="Programs of a pass.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of interleaved measures.")] = None,
    run: RunOption = None,
) -> None:
    """Measure throughput, latency and losses on the standard workload. Exit status 1 if an answer was wrong or lost.

    The peer is not part of this project. Clone the public repository 0xWJ/code-judge, install its requirements.txt
    into an environment of its own and redis-server from the system's packages. Start Redis without persistence:

    redis-server --port 7379 --bind 127.0.0.1 --save '' --appendonly no

    Then, in the clone, twice, once with MAX_WORKERS=2 and once with 8 x cores, each with its own Redis database and
    port, all with the interpreter that has numpy and sympy:

    export REDIS_URI=redis://127.0.0.1:7379/0 MAX_WORKERS=2 MAX_EXECUTION_TIME=2 MAX_MEMORY=512
    PYTHON_EXECUTOR_PATH=PYTHON; uvicorn app.main:app --port 8088 & python run_workers.py

    and pass the addresses: --against code-judge=http://127.0.0.1:8088 --against code-judge-16=http://127.0.0.1:8089
    """
    judges = {}
    for entry in against or ():
        name, _, url = entry.partition("=")
        if not name.startswith("code-judge") or not url.startswith("http"):
            fail(f"--against is {entry!r}; give code-judge=http://HOST:PORT")
        judges[name] = url.rstrip("/")
    names = [name.strip() for name in only.split(",") if name.strip()]
    began = time.monotonic()
    try:
        record = run_bench(quick=quick, workers=workers, judges=judges, only=names, size=size, rounds=rounds)
    except UserError as error:
        fail(str(error))
    if as_json:
        sys.stdout.write(json.dumps(record) + "\n")
    else:
        for entry in record["rounds"]:
            typer.echo(f"{entry['goodput']:.0f} calls/s; with loops {entry['goodput_with_loops']:.0f}")
        if "session" in record:
            typer.echo(f"session cell p50 {record['session']['p50_ms']:.3f} ms")
        typer.echo(f"valid: {record['valid']}; --json shows everything")
    if not record["valid"]:
        raise typer.Exit(1)
    if run is not None:
        publish(run, "sandbox", record, time.monotonic() - began)


if __name__ == "__main__":
    app(prog_name="python -m sandbox bench")
