"""What the user can mend: every command prints such an error as one line and ends with status 2."""

from __future__ import annotations


class UserError(Exception):
    """The message says what is wrong, where, and how to mend it."""


class ConfigError(UserError, ValueError):
    """An input is wrong: configuration, data file, checkpoint."""
