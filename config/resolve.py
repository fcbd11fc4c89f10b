"""`resolve`: makes one checked Config of files and overrides, for commands and for Snakemake.

Later files override earlier ones, and `--set` overrides files; mappings merge deeply, lists are replaced whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from config.arms import config_of_arm, configured
from config.mapping import merge, read_yaml, resolve_mapping
from config.model import Config
from config.modules import check_modules
from config.scalars import load
from records.errors import ConfigError

DEFAULTS = Path(__file__).with_name("tiny.yaml")


def resolve(files: Sequence[Path] = (), overrides: Sequence[str] = ()) -> Config:
    """Defaults, then `files` in order, then `overrides` of the form a.b=value (value read as YAML).

    Raises ConfigError for every contradiction that the settings alone reveal.
    """
    merged = read_yaml(DEFAULTS)
    for path in files:
        merged = merge(merged, read_yaml(path))
    for override in overrides:
        merged = merge(merged, parse_override(override))
    source = ", ".join([str(path) for path in files] + [f"--set {o}" for o in overrides]) or DEFAULTS.name
    return decided(resolve_mapping(merged, source=source))


def decided(config: Config) -> Config:
    """Return the configuration after checking the modules that it names and the arms of its default run."""
    check_modules(config)
    for run in configured(config):
        if run.seed == 0:
            config_of_arm(config, run)
    return config


def parse_override(text: str) -> dict[str, Any]:
    """Parse one `a.b=value` to a nested mapping.

    >>> parse_override("rl.rl1.steps=3")
    {'rl': {'rl1': {'steps': 3}}}
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {text}: must have the form section.key=value")
    try:
        nested: Any = load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text}: {value!r} is not a YAML value") from None
    for part in reversed(key.strip().split(".")):
        nested = {part: nested}
    return nested
