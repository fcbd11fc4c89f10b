"""`refusal`: the message with which the configuration refuses overrides."""

from __future__ import annotations

import pytest

from config.resolve import resolve
from records.errors import ConfigError


def refusal(*overrides: str) -> str:
    """Return the one line with which `resolve` refuses overrides of the defaults."""
    with pytest.raises(ConfigError) as caught:
        resolve(overrides=overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)
