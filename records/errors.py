"""`UserError`: errors that the user can fix. A command prints one as a single line and ends with status 2, or 1."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """The message states what is wrong, where, and how to fix it."""


class FellShort(UserError):
    """The input was valid, but the result is missing: exit status 1."""


class ConfigError(UserError, ValueError):
    """An input is wrong: configuration, data file, checkpoint."""


def require_known(name: str, known: Iterable[str], what: str) -> None:
    """Raise ConfigError with the nearest known name, unless `name` is one of `known`.

    >>> require_known("rl4", ["rl1"], "--stage")
    Traceback (most recent call last):
        ...
    records.errors.ConfigError: --stage 'rl4' is not among rl1; did you mean rl1?
    """
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{what} {name!r} is not among {', '.join(known)}{hint}")
