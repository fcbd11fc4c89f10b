r"""`parsable`: rewrites names that Python's grammar refuses: `f(from="x")`, `f(class=1)`, `f(Content-Type="x")`.

Functions of BFCL have such arguments, and models write them unchanged. `parsable` encodes them as plain names for the
parser; `true_name` decodes them from the syntax tree.
"""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence

_MARK = "_spelled_"
MAX_CHARS = 20_000
"""Longer text is left unchanged, because its tokens would take too long."""
_HINT = re.compile(rf"\b(?:{'|'.join(keyword.kwlist)})\s*[=(.]|\w-\w")
_SPELLED = re.compile(_MARK + "[0-9a-f]+_")


def parsable(text: str) -> str:
    r"""Encode every argument name and dotted part that is no Python name.

    Text that is too long or has no tokens is returned unchanged; the parser then reports the fault.

    >>> true_name(parsable('f(from="x", a=1)')[2:].split("=")[0])
    'from'
    >>> parsable('f(a="from=1", b=None if c else d)')
    'f(a="from=1", b=None if c else d)'
    """
    if len(text) > MAX_CHARS or not _HINT.search(text):
        return text
    try:
        tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
        ]
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return text
    lines = text.split("\n")
    for (row, start), end, name in reversed(list(_unusual(tokens))):
        line = lines[row - 1]
        lines[row - 1] = line[:start] + _MARK + name.encode().hex() + "_" + line[end:]
    return "\n".join(lines)


def true_name(name: str) -> str:
    """Decode a parsed name.

    >>> true_name("plain"), true_name("_spelled_66726f6d_")
    ('plain', 'from')
    """
    if not (name.startswith(_MARK) and name.endswith("_")):
        return name
    try:
        return bytes.fromhex(name[len(_MARK) : -1]).decode()
    except ValueError:
        return name


def with_true_names(source: str) -> str:
    """Decode every encoded name of a source text."""
    return _SPELLED.sub(lambda match: true_name(match.group()), source)


def _unusual(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[tuple[tuple[int, int], int, str]]:
    """Return (row, column), end and text of the names to encode: arguments, and parts of a called dotted name."""
    for at, token in enumerate(tokens):
        if token.type != tokenize.NAME:
            continue
        before = tokens[at - 1].string if at else "["
        last = at
        while before in "(," and _is_hyphenated(tokens, last):
            last += 2
        after = tokens[last + 1].string if last + 1 < len(tokens) else ""
        is_argument = before in "(," and after == "="
        is_part = before == "." or (before in "[," and after in "(." and last == at)
        name = "".join(part.string for part in tokens[at : last + 1])
        if (is_argument or (is_part and last == at)) and (last > at or keyword.iskeyword(name)):
            yield token.start, tokens[last].end[1], name


def _is_hyphenated(tokens: Sequence[tokenize.TokenInfo], at: int) -> bool:
    """Return whether `-name` follows directly, on the same line."""
    if at + 2 >= len(tokens):
        return False
    name, hyphen, more = tokens[at : at + 3]
    return (
        hyphen.string == "-"
        and more.type == tokenize.NAME
        and name.end == hyphen.start
        and hyphen.end == more.start
    )
