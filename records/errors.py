"""What the user can mend: every command prints such an error as one line and ends with status 2, or 1."""

from __future__ import annotations


class UserError(Exception):
    """The message says what is wrong, where, and how to mend it."""


class FellShort(UserError):
    """The input was right and the result is not there: exit status 1."""


class ConfigError(UserError, ValueError):
    """An input is wrong: configuration, data file, checkpoint."""
