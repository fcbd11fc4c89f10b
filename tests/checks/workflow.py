"""`snakemake --lint` without advice that does not apply: each exemption names a title and a reason.

Snakemake cannot switch a lint off, and writes no JSON for it if a profile exists, so this check reads the text.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.checks import tree

_PLACE = re.compile(r"^Lints for (.*):$")
_TITLE = re.compile(r"^ {4}\* (.*?):?$")


def problems(root: Path) -> list[str]:
    """Lints without an exemption, and exemptions without need."""
    command = [sys.executable, "-m", "snakemake", "--lint"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    lints = read_lints(done.stderr + done.stdout)
    if done.returncode and not lints:
        return [f"snakemake --lint: {line}" for line in done.stderr.strip().splitlines()[-5:]]
    return judge(lints, tree.exemptions(root, "lint"))


def read_lints(text: str) -> list[tuple[str, str]]:
    """(place, title) of each lint.

    >>> read_lints("Lints for rule a (line 1, x.smk):\\n    * No log directive defined:\\n      Without ...\\n")
    [('rule a (line 1, x.smk)', 'No log directive defined')]
    """
    found, place = [], ""
    for line in text.splitlines():
        if hit := _PLACE.match(line):
            place = hit.group(1)
        elif place and (hit := _TITLE.match(line)):
            found.append((place, hit.group(1)))
    return found


def judge(lints: list[tuple[str, str]], granted: list[dict[str, str]]) -> list[str]:
    """What remains once the exemptions are applied."""
    titles = [item["title"] for item in granted]
    found = [f"{place}: {title}" for place, title in lints if not any(re.fullmatch(t, title) for t in titles)]
    unused = [t for t in titles if not any(re.fullmatch(t, title) for _, title in lints)]
    return found + [f"{tree.EXEMPTIONS}: lint {title!r} needs no exemption any more" for title in unused]
