"""`problems`: words and long sentences that the style of CONTRIBUTING.md excludes, with file and line.

Python files are read by token: comments, strings and names. Other files are read by line, outside code. An entry in
exemptions.toml lets one word pass in the files of one pattern.
"""

from __future__ import annotations

import fnmatch
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.checks import tree

EXAMPLES = ("tests/checks/prose.py", "tests/checks/test_prose.py")
"""Files that hold the excluded words on purpose."""
WORDS: dict[str, str] = {
    r"told|tells?": "reports, states",
    r"said|says?|saying": "reports, states",
    r"hears?|heard": "receives",
    r"wants?|wanted": "requires, expected",
    r"knows?": "holds, detects",
    r"mend(s|ed|ing)?": "fix",
    r"speaks?|spoken": "describes",
    r"ours|theirs": "the owner by name",
    r"our side|their side": "the actor by name",
    r"of (ours|theirs|yours|its own kind)": "the owner by name",
    r"none such": "no such THING",
    r"next (pair of )?hands": "the next reader",
    r"but for": "except",
    r"aloud": "in the log",
    r"for ever": "permanently",
    r"let go of": "delete, release",
    r"heed(s|ed)?": "handle",
    r"stands? (in|beside|for)|stood": "is in, is beside, replaces",
    r"laid down|lies? there": "is stored, is present",
    r"waved? through": "allow",
    r"whatever it is worth": "(leave out)",
    r"at hand": "available",
    r"by hand of": "by",
}
"""Pattern -> what to write instead."""
MOST_WORDS = 40
"""Words of a sentence of a document; CONTRIBUTING asks for 25."""

_FENCE = ("```", "~~~")
_TEXT = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_ONE = [
    (re.compile(rf"(?<![\w-])({word})(?![\w-])", re.IGNORECASE), instead) for word, instead in WORDS.items()
]


def problems(root: Path) -> list[str]:
    """Lines that use an excluded word, and sentences of documents that are too long."""
    granted = tree.exemptions(root, "prose")
    found = []
    for path in tree.files(root):
        name = path.as_posix()
        covered = path.suffix in _READERS and name not in EXAMPLES
        text = tree.text_of(root / path) if covered else None
        if text is None:
            continue
        for number, line in _READERS[path.suffix](text):
            for word, instead in hits(line):
                if not any(fnmatch.fnmatch(name, g["path"]) and g["word"] == word for g in granted):
                    found.append(f"{name}:{number}: {word!r}; write {instead}")
        if path.suffix == ".md":
            found += [f"{name}:{number}: a sentence of {size} words" for number, size in long_sentences(text)]
    return found


def hits(text: str) -> list[tuple[str, str]]:
    """Excluded words of a text, each with what to write instead.

    >>> hits("The caller is told, but for one")
    [('told', 'reports, states'), ('but for', 'except')]
    >>> hits("unknown words and is_told")
    []
    """
    return [(hit.group(1).lower(), instead) for pattern, instead in _ONE if (hit := pattern.search(text))]


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered comments, strings and names of a Python file; a name counts as its words."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _TEXT:
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line
        elif token.type == tokenize.NAME:
            yield token.start[0], token.string.replace("_", " ")


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside fenced code, without inline code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(_FENCE):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`\n]*`", "", line)


def long_sentences(text: str) -> list[tuple[int, int]]:
    """Line and number of words of each sentence over `MOST_WORDS`; tables, lists and headings end a sentence."""
    found, words, start = [], 0, 1
    for number, line in lines_of(text):
        if not line.strip() or line.lstrip().startswith(("|", "#", "- ", "* ", ">")):
            words = 0
        for part in re.split(r"(?<=[.;:!?])\s", "" if line.lstrip().startswith("|") else line):
            start = number if words == 0 else start
            words += len(re.findall(r"\w[\w'-]*", part))
            if part.rstrip().endswith((".", ";", ":", "!", "?")):
                found += [(start, words)] if words > MOST_WORDS else []
                words = 0
    return found


_READERS = {".py": python_prose, ".md": lines_of, ".html": lines_of, ".yaml": lines_of, ".smk": lines_of}
