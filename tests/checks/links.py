"""Every relative link in a Markdown file leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
from pathlib import Path

from tests.checks import tree

_LINK = re.compile(r"\[[^\]]*\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)")
_CODE = re.compile(r"`[^`\n]*`")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")


def problems(root: Path) -> list[str]:
    """Links that lead nowhere."""
    found = []
    for path in tree.files(root):
        if path.suffix != ".md":
            continue
        for number, line in _prose(tree.text_of(root / path) or ""):
            for hit in _LINK.finditer(_CODE.sub("", line)):
                why = _broken(root, path, hit.group(1))
                if why:
                    found.append(f"{path}:{number}: link {hit.group(1)!r}: {why}")
    return found


def _broken(root: Path, page: Path, target: str) -> str:
    """Why the link leads nowhere; empty if it is fine or leads out of the project."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return ""
    name, _, anchor = target.partition("#")
    goal = (root / page).parent / name if name else root / page
    if not goal.exists():
        return "no such file"
    if anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text()):
        return "no such heading"
    return ""


def anchors(text: str) -> set[str]:
    """Anchors that a page's headings get.

    >>> sorted(anchors("# The main job\\n## Bad input, `-n`\\n"))
    ['bad-input--n', 'the-main-job']
    """
    titles = [hit.group(1).lower() for _, line in _prose(text) if (hit := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def _prose(text: str) -> list[tuple[int, str]]:
    """Numbered lines outside fenced code."""
    kept, fenced = [], False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            kept.append((number, line))
    return kept
