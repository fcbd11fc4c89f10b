"""`python -m config COMMAND`: show a resolved configuration; write and check the files generated from the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from config.command import one_line_errors
from config.options import ConfigOption, SetOption

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Shows the configuration; writes what is generated from its model.",
)


@app.command()
def show(
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of YAML.")] = False,
) -> None:
    """Print the resolved configuration; an invalid one gives one line and status 2."""
    with one_line_errors():
        from config.reference import as_yaml
        from config.resolve import resolve

        resolved = resolve(config or [], overrides or [])
        typer.echo(resolved.model_dump_json(indent=1) if as_json else as_yaml(resolved), nl=as_json)


@app.command()
def schema(out: Annotated[Path | None, typer.Option(help="Default: config/schema.json.")] = None) -> None:
    """Write the JSON schema, with which editors complete and check YAML files."""
    _write(out, "schema.json")


@app.command()
def docs(out: Annotated[Path | None, typer.Option(help="Default: docs/configuration.md.")] = None) -> None:
    """Write the reference of all keys."""
    _write(out, "configuration.md")


@app.command()
def check() -> None:
    """Exit 1 when a preset does not resolve, or a generated file differs from the model."""
    with one_line_errors():
        from config.reference import faults

        found = faults()
        for line in found:
            typer.echo(line, err=True)
        if found:
            raise typer.Exit(1)
        typer.echo("config: presets resolve, generated files are current")


def _write(out: Path | None, name: str) -> None:
    with one_line_errors():
        from config.reference import GENERATED

        (generated,) = (item for item in GENERATED if item.path.name == name)
        path = out or generated.path
        path.write_text(generated.text(), encoding="utf-8")
        typer.echo(f"wrote {path}")


if __name__ == "__main__":
    app(prog_name="python -m config")
