"""`publish`: writes the record of a measure into a run, with a manifest as of every other job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from records.files import write_json
from records.manifest import write_folder
from records.run_folder import BENCH, RunFolder

RunOption = Annotated[
    Path | None, typer.Option("--run", help="Run folder, results/<run>: also write the record into it.")
]


def publish(run: Path, name: str, record: Mapping[str, Any], seconds: float) -> None:
    """Write bench/NAME of a run: the record, its manifest, which names the run, and run.json with the seconds."""
    folder = RunFolder(run)
    made = folder.working / f"bench_{name}"
    write_json(made / BENCH, record)
    facts = {"run": folder.name}
    manifest_of = {"stage": f"{name}_bench", "parent": None, "data": None, "facts": facts}
    write_folder(folder.bench(name), made, manifest_of, {"seconds": seconds})
