"""`files` and `exemptions`: the files that a check reads, and the granted exemptions with their reasons."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

PACKAGES = ("records", "config", "sandbox", "verifier", "trainer", "evaluation", "analysis", "bench")
EXEMPTIONS = "tests/checks/exemptions.toml"


def files(root: Path) -> list[Path]:
    """Every file of the checkout that git tracks or would track, relative to its root."""
    # safe.directory: root may read a checkout that belongs to another user.
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "-co",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = sorted({Path(name) for name in listed.split("\0") if name})
    return [path for path in paths if (root / path).is_file()]


def text_of(path: Path) -> str | None:
    """The file's text, or None if it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def exemptions(root: Path, rule: str) -> list[dict[str, str]]:
    """Exemptions of one rule. Raises ValueError if one gives no reason."""
    path = root / EXEMPTIONS
    granted = tomllib.loads(path.read_text()).get(rule, []) if path.exists() else []
    for exemption in granted:
        if not exemption.get("reason", "").strip():
            raise ValueError(f"{EXEMPTIONS}: [[{rule}]] {exemption.get('path')} gives no reason")
    return granted
