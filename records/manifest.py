"""A checkpoint: a Hugging Face folder that `transformers` and vLLM load as it is, and a manifest written last.

The manifest holds digests and no times, so equal weights give equal bytes; what depends on the clock is in
`run.json` beside it. A checkpoint without manifest does not exist; one whose files do not match is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from records.digest import digest
from records.errors import ConfigError
from records.files import read_json, sha256_of, sync_folder, write_json

MANIFEST = "manifest.json"
RUN = "run.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a stage produced, said deterministically."""

    stage: str
    files: dict[str, str]
    """Name -> sha256."""
    parent: str | None
    """Digest of the parent checkpoint; None for base."""
    data: str | None
    """Digest of the data it was trained on."""
    sections: dict[str, Any] = field(default_factory=dict)
    """The configuration it was made with."""
    steps: int = 0
    """Updates (SFT) or RL steps behind this checkpoint, all stages counted."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Counts worth checking: parameters, rows, duplicates."""
    schema: int = SCHEMA

    @property
    def digest(self) -> str:
        """Identity for children: the files alone, so that equal weights are equal whatever led to them."""
        return digest(self.files)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read without checking the files; see `verify`."""
        record = read_json(folder / MANIFEST)
        try:
            manifest = cls(**record)
        except TypeError as error:
            raise ConfigError(
                f"{folder / MANIFEST}: is not a manifest ({error}); delete it and run again"
            ) from None
        if manifest.schema != SCHEMA or not isinstance(manifest.files, dict):
            raise ConfigError(
                f"{folder / MANIFEST}: schema {manifest.schema}, this code reads {SCHEMA} with a table of files; "
                "delete it and run again"
            )
        return manifest


def write_folder(
    folder: Path, made: Path, manifest_of: Mapping[str, Any], run: Mapping[str, Any]
) -> Manifest:
    """Publish the files in `made` as `folder`: files first, manifest last, each by rename.

    `made` must lie on the same file system and is used up. `manifest_of`: fields of Manifest but `files`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    names = sorted(path.name for path in made.iterdir() if path.is_file())
    manifest = Manifest(files={name: sha256_of(made / name) for name in names}, **manifest_of)
    for stale in folder.iterdir():
        if stale.name not in names and stale.is_file():
            stale.unlink()
    for name in names:
        (made / name).replace(folder / name)
    sync_folder(folder)
    write_json(folder / RUN, dict(run))
    write_json(folder / MANIFEST, asdict(manifest))
    shutil.rmtree(made)
    return manifest


def verify(folder: Path) -> Manifest:
    """Load the manifest and check every file against it.

    Raises ConfigError naming the file and the remedy when one is missing or differs.
    """
    manifest = Manifest.load(folder)
    if not manifest.files:
        raise ConfigError(f"{folder / MANIFEST}: lists no file; delete it and run the pipeline again")
    for name, wanted in manifest.files.items():
        path = folder / name
        remedy = f"delete {folder / MANIFEST} and run the pipeline again"
        if not path.is_file():
            raise ConfigError(f"{path}: is missing though {MANIFEST} lists it; {remedy}")
        found = sha256_of(path)
        if found != wanted:
            raise ConfigError(
                f"{path}: sha256 {found[:12]} differs from {MANIFEST} ({wanted[:12]}); {remedy}"
            )
    return manifest
