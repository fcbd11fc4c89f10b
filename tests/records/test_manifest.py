"""A published folder: manifest last, equal files equal bytes, damage refused in one line."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from records.errors import ConfigError
from records.files import read_json, sha256_of, write_json, write_text
from records.manifest import MANIFEST, RUN, Manifest, verify, write_folder

FIELDS: dict[str, Any] = {"stage": "sft", "parent": "p", "data": "d", "steps": 3, "facts": {"rl_steps": 0}}


def publish(root: Path, content: str = "w", run: dict[str, Any] | None = None) -> Path:
    made, folder = root / "made", root / "folder"
    made.mkdir(parents=True)
    (made / "weights").write_text(content)
    (made / "tokenizer").write_text("t")
    write_folder(folder, made, FIELDS, run or {})
    assert not made.exists()
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        verify(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_equal_files_give_equal_manifests_at_any_time(tmp_path: Path) -> None:
    one = publish(tmp_path / "one", run={"finished_unix_s": 1.0})
    other = publish(tmp_path / "other", run={"finished_unix_s": 2.0})
    assert (one / MANIFEST).read_bytes() == (other / MANIFEST).read_bytes()
    assert (one / RUN).read_bytes() != (other / RUN).read_bytes()
    changed = publish(tmp_path / "changed", content="v")
    assert verify(changed).digest != verify(one).digest


def test_the_digest_covers_the_files_alone(tmp_path: Path) -> None:
    manifest = verify(publish(tmp_path))
    assert (
        manifest.digest == Manifest(stage="x", files=manifest.files, parent=None, data=None, steps=9).digest
    )
    assert (manifest.parent, manifest.data, manifest.steps) == ("p", "d", 3)
    assert sorted(manifest.files) == ["tokenizer", "weights"]


def test_publishing_again_replaces_the_whole_folder(tmp_path: Path) -> None:
    folder = publish(tmp_path)
    (folder / "stale").write_text("")
    publish(tmp_path, content="new")
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, RUN, "tokenizer", "weights"]
    verify(folder)


def test_the_manifest_is_written_last_and_removed_first(tmp_path: Path) -> None:
    """After a failed publication the folder does not exist for any reader."""
    folder = publish(tmp_path)
    made = tmp_path / "made"
    made.mkdir()
    (made / "weights").write_text("new")
    # A folder in place of a file: the rename fails as on a full disk.
    (folder / "tokenizer").unlink()
    (folder / "zzz").mkdir()
    (made / "zzz").write_text("")
    with pytest.raises(OSError):  # noqa: PT011
        write_folder(folder, made, FIELDS, {})
    assert not (folder / MANIFEST).exists()
    assert "run the step that writes it" in refusal(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "weights").write_text("x"), r"weights: sha256 \w{12} differs"),
        (lambda f: os.truncate(f / "weights", 0), r"weights: sha256 \w{12} differs"),
        (lambda f: (f / "weights").unlink(), "weights: is missing"),
        (lambda f: (f / MANIFEST).unlink(), "missing; run the step"),
        (lambda f: (f / MANIFEST).write_text("{"), "is not JSON"),
        (lambda f: (f / MANIFEST).write_bytes(b"\xff"), "is no text"),
        (lambda f: (f / MANIFEST).write_text("[]"), "Input should be an object"),
        (lambda f: (f / MANIFEST).write_text("{}"), "stage: Field required"),
        (lambda f: _edit(f, files=["weights"]), "files: Input should be a"),
        (lambda f: _edit(f, files={}), "lists no file"),
        (lambda f: _edit(f, schema=2), "schema 2, this code reads 1"),
        (lambda f: _edit(f, colour="red"), "colour: Unexpected keyword"),
        (shutil.rmtree, "missing; run the step"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line_with_the_remedy(
    damage: Any, message: str, tmp_path: Path
) -> None:
    folder = publish(tmp_path)
    damage(folder)
    line = refusal(folder)
    assert re.search(message, line)
    assert str(folder) in line
    assert re.search("run the pipeline again|run the step", line)


def _edit(folder: Path, **changes: Any) -> None:
    record = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(record | changes))


# --- whole files or none -----------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_only(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"b": 1})
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, {"b": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert read_json(path) == {"b": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_equal_values_give_equal_bytes(tmp_path: Path) -> None:
    write_json(tmp_path / "one", {"b": 1, "a": "\u00e9"})
    write_json(tmp_path / "other", {"a": "\u00e9", "b": 1})
    assert sha256_of(tmp_path / "one") == sha256_of(tmp_path / "other")
