"""`Manifest`: manifest.json of a published folder, written last.

It holds digests and no times, so equal files give equal bytes; values that depend on the clock are in `run.json`.
A folder without manifest is not finished; readers refuse one whose files do not match.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from records.digest import digest
from records.errors import ConfigError
from records.files import sha256_of, sync_folder, write_json
from records.stored import Stored, read_record, write_record

MANIFEST = "manifest.json"
RUN = "run.json"
SCHEMA = 1
REMEDY = "delete it and run the step that writes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Stored):
    """Deterministic record of a folder: a checkpoint, a data set, a token table, figures or tables."""

    stage: str
    """Name of the step that wrote it."""
    files: dict[str, str]
    """Name -> sha256."""
    parent: str | None
    """Digest of the source checkpoint; None without one."""
    data: str | None
    """Digest of the source data."""
    sections: dict[str, Any] = field(default_factory=dict)
    """Configuration of the step."""
    steps: int = 0
    """Updates (SFT) or RL steps up to this checkpoint, over all stages."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Counts to check: parameters, rows, duplicates."""
    schema: int = SCHEMA

    @property
    def digest(self) -> str:
        """Return the identity for children: the files alone, so that equal weights are equal whatever their history."""
        return digest(self.files)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the manifest without checking the files; see `verify`."""
        manifest = read_record(cls, folder / MANIFEST, REMEDY)
        if manifest.schema != SCHEMA:
            raise ConfigError(
                f"{folder / MANIFEST}: schema {manifest.schema}, this code reads {SCHEMA}; {REMEDY}"
            )
        return manifest

    def write(self, folder: Path) -> None:
        """Write folder/manifest.json, atomically."""
        write_record(folder / MANIFEST, self)


def write_folder(
    folder: Path, made: Path, manifest_of: Mapping[str, Any], run: Mapping[str, Any]
) -> Manifest:
    """Publish the files in `made` as `folder`: files first, manifest last, each by rename.

    `made` must be on the same file system; its files move away. `manifest_of`: fields of Manifest except `files`.
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
    manifest.write(folder)
    shutil.rmtree(made)
    return manifest


def list_folder(folder: Path, manifest_of: Mapping[str, Any]) -> Manifest:
    """Write the manifest of files that are already in `folder` and below; `manifest_of` as in `write_folder`."""
    files = {
        str(path.relative_to(folder)): sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MANIFEST, RUN)
    }
    manifest = Manifest(files=files, **manifest_of)
    manifest.write(folder)
    return manifest


def verify(folder: Path) -> Manifest:
    """Load the manifest and check every file against it.

    Raises ConfigError with the file and the remedy when a file is missing or differs.
    """
    manifest = Manifest.load(folder)
    if not manifest.files:
        raise ConfigError(f"{folder / MANIFEST}: lists no file; delete it and run the pipeline again")
    for name, listed in manifest.files.items():
        path = folder / name
        remedy = f"delete {folder / MANIFEST} and run the pipeline again"
        if not path.is_file():
            raise ConfigError(f"{path}: is missing though {MANIFEST} lists it; {remedy}")
        found = sha256_of(path)
        if found != listed:
            raise ConfigError(
                f"{path}: sha256 {found[:12]} differs from {MANIFEST} ({listed[:12]}); {remedy}"
            )
    return manifest
