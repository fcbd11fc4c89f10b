"""`Source` and `configured`: the options by which every command of the pipeline receives its configuration."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer
from pydantic import ValidationError

from config.command import one_line_errors
from config.commands import Command, View
from config.model import Config, RuntimeSection
from config.resolve import resolve
from records.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", bound=View)

ConfigOption = Annotated[
    list[Path] | None,
    typer.Option("--config", help="Preset or own YAML file over the defaults; may be repeated."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="One key, as section.key=value; may be repeated.")
]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        help="OpenAI-compatible server, such as http://127.0.0.1:8000/v1; the checkpoint gives the tokenizer."
    ),
]
OPTIONS: dict[str, Any] = {
    "sections": Annotated[
        str | None, typer.Option("--sections", help="The sections of the command as JSON (rules use this).")
    ],
    "runtime": Annotated[
        Path | None, typer.Option("--runtime", help="File with the section runtime as JSON (rules use this).")
    ],
    "config": ConfigOption,
    "overrides": SetOption,
}
"""Fields of `Source` as options of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a command's configuration: a rule's JSON, or files and overrides."""

    sections: str | None = None
    runtime: Path | None = None
    config: Sequence[Path] | None = None
    overrides: Sequence[str] | None = None

    def read(
        self, command: Command[V], view_of: Callable[[Config], V] | None = None
    ) -> tuple[V, RuntimeSection]:
        """Return the view of a command, and the runtime section.

        Args:
            command: decides the view.
            view_of: makes the view of an experiment from a configuration; a rule passes the finished view.

        Raises:
            ConfigError: a value is wrong, or both sources are given.
        """
        # Set before torch loads: its waiting threads spin. On a loaded machine two spinning threads take 18 s for an
        # update of the tiny model, which takes 1.2 s when they sleep.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if (self.sections or self.runtime) and (self.config or self.overrides):
            raise ConfigError("give either --config/--set or --sections/--runtime, not both")
        if self.sections and self.runtime:
            return command.read(self.sections), read_runtime(self.runtime)
        config = resolve(self.config or [], self.overrides or [])
        view = command.read(self.sections) if self.sections else (view_of or command.of)(config)
        return view, read_runtime(self.runtime) if self.runtime else config.runtime


def configured(function: Callable[Concatenate[Source, P], R]) -> Callable[..., R]:
    """Add the options of `Source` to a command; its errors become one line and status 2."""

    @one_line_errors()
    @wraps(function)
    def run(*args: Any, **options: Any) -> R:
        source = Source(**{name: options.pop(name) for name in OPTIONS})
        return function(source, *args, **options)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in OPTIONS.items()
    ]
    run.__signature__ = inspect.Signature([*own, *shared])  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return run


def read_runtime(path: Path) -> RuntimeSection:
    """Read the runtime section of a run, as the workflow wrote it; ConfigError when it cannot be read."""
    try:
        return RuntimeSection.model_validate_json(path.read_bytes())
    except OSError as error:
        reason = error.strerror or "no reason given"
    except ValidationError as error:
        first = error.errors()[0]
        reason = ": ".join([*(str(part) for part in first["loc"]), first["msg"]])
    raise ConfigError(f"{path}: cannot be read ({reason}); start the run with snakemake")
