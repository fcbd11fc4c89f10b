"""Command-line options that every command shares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SectionsOption = Annotated[
    str | None, typer.Option("--sections", help="The declared sections as canonical JSON (rules use this).")
]
RuntimeOption = Annotated[
    str | None, typer.Option("--runtime", help="File with the runtime section as JSON (rules use this).")
]
ConfigOption = Annotated[
    list[Path] | None,
    typer.Option("--config", help="Preset or own YAML file over the defaults; may be repeated."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="One key, as section.key=value; may be repeated.")
]
