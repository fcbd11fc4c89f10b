"""`problems`: paths of home or work folders, hosts and package indexes, which hold for one machine only.

The project must run from any checkout, and its text must not describe the machine that it was written on.
"""

from __future__ import annotations

import fnmatch
import re
import socket
from pathlib import Path

from tests.checks import tree

_END = r"""(?:/[\w.-]+|(?=[\s"'`]|$))"""
_PATTERNS = (
    (re.compile(r"(?<![\w.~})-])/(?:work|root|home/\w+|Users/\w+)" + _END), "absolute path"),
    (re.compile(r"\b[\w.-]*(?:py[p]i|py[t]hon[h]osted|np[m]js)\.(?:org|com)"), "package host"),
    (re.compile(r"--(?:extra-)?index[-]url|--find[-]links|--trusted[-]host"), "package index option"),
    (re.compile(r"\bfile:/{2,3}\w"), "file URL"),
)


def problems(root: Path) -> list[str]:
    """Each line that names a place of one machine."""
    granted = tree.exemptions(root, "place")
    patterns = (*_PATTERNS, *_of_this_machine(root))
    found = []
    for path in tree.files(root):
        if any(fnmatch.fnmatch(path.as_posix(), item["path"]) for item in granted):
            continue
        text = tree.text_of(root / path)
        for number, line in enumerate((text or "").splitlines(), start=1):
            found += [
                f"{path}:{number}: {what} {hit.group()!r}"
                for pattern, what in patterns
                if (hit := pattern.search(line))
            ]
    return found


def _of_this_machine(root: Path) -> list[tuple[re.Pattern[str], str]]:
    """Path of this checkout, and the name of this host if it is specific."""
    patterns = [(re.compile(re.escape(str(root)) + r"\b"), "path of this checkout")]
    host = socket.gethostname()
    if len(host) >= 6 and host != "localhost":
        patterns.append((re.compile(rf"\b{re.escape(host)}\b"), "name of this host"))
    return patterns
