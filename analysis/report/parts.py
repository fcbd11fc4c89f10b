"""`Parts`: inputs of the report from earlier commands: claims, figures and the entropy study, each checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from analysis.claims.claims import ClaimVerdict
from analysis.inputs.lineage import require_lineage
from analysis.inputs.runs import Run
from records.errors import ConfigError
from records.files import read_json, require_digest
from records.manifest import MANIFEST, Manifest
from records.stored import read_record

Number = float | None


class _Open(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class _Zone(_Open):
    group: str
    num_tokens: int
    share_of_tokens: float
    share_of_high: float
    mean_entropy: Annotated[float, Field(ge=0)]
    lift: Number
    lift_low: Number
    lift_high: Number


class _StudySettings(_Open):
    top_entropy_frac: float
    reflection_window: int


class _Study(_Open):
    checkpoint: str
    num_trajectories: int
    num_questions: int
    num_tokens: int
    mean_entropy: Annotated[float, Field(ge=0)]
    settings: _StudySettings
    classes: list[_Zone]
    controls: list[dict[str, Any]]


class _Figure(_Open):
    name: str
    drawn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Paths of the outputs of earlier commands that the page shows."""

    figures: Path
    claims: Path
    """claims.json."""
    entropy: Path
    """entropy.json; may be absent."""


def read_claim_rows(run: Run, path: Path) -> list[ClaimVerdict]:
    """Rows of claims.json, judged on the current files of this run.

    Raises:
        ConfigError: Missing, damaged, or judged on something else.
    """
    require_lineage(run, path, "claims")
    rows = read_record(list[ClaimVerdict], path, "run python -m analysis claims again")
    ids = [row.id for row in rows]
    if not ids or len(ids) != len(set(ids)):
        raise ConfigError(f"{path}: no claim, or one twice; run python -m analysis claims again")
    return rows


def read_study(run: Run, path: Path) -> dict[str, Any]:
    """entropy.json; empty when there is no study. Raises ConfigError when it is damaged or of something else."""
    if not path.exists():
        return {}
    require_lineage(run, path, "entropy")
    study = read_json(path)
    _validate(TypeAdapter(_Study), study, path, "entropy")
    return study


def drawn_figures(run: Run, folder: Path) -> dict[str, str | None]:
    """Name of each figure -> its SVG as text; None where the run has no data for it.

    Raises:
        ConfigError: A file is missing, changed, or drawn from something else.
    """
    path = folder / MANIFEST
    require_lineage(run, path, "figures")
    manifest = Manifest.load(folder)
    plots = _validate(TypeAdapter(list[_Figure]), manifest.facts.get("plots"), path, "figures")
    found: dict[str, str | None] = {}
    for plot in plots:
        svg = folder / f"{plot.name}.svg"
        found[plot.name] = None
        if plot.drawn:
            require_digest(svg, manifest.files.get(svg.name), path, "run python -m analysis figures again")
            found[plot.name] = svg.read_text(encoding="utf-8")
    return found


def _validate(adapter: TypeAdapter[Any], value: object, path: Path, command: str) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{path}: {where}: {first['msg']}; run python -m analysis {command} again"
        ) from None
