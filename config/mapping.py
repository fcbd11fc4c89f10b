"""`resolve_mapping`: checks one mapping of every section and makes the Config of it; a wrong key is one line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from config.contradictions import contradictions, impossible
from config.model import Config
from config.scalars import as_declared, load, unwrapped
from records.errors import ConfigError


def resolve_mapping(
    mapping: Mapping[str, Any], *, source: str = "configuration", may_idle: bool = False
) -> Config:
    """Check an already merged mapping, each key and all together.

    Args:
        mapping: every section with every key.
        source: name of the mapping in a message.
        may_idle: accept a setting that never acts, as an experiment arm leaves some of its preset's.
    """
    try:
        # Through JSON, because strict models accept enum values as strings only from JSON.
        config = Config.model_validate_json(json.dumps(as_declared(mapping, Config), default=str))
    except ValidationError as error:
        lines = [_explain(item) for item in error.errors()]
    except (ValueError, RecursionError):
        raise ConfigError(f"{source}: a value holds itself; write it out") from None
    else:
        lines = impossible(config) if may_idle else contradictions(config)
        if not lines:
            return config
    raise ConfigError(f"{source}: " + "; ".join(lines))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping; ConfigError when it is missing or something else."""
    try:
        loaded = load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give an existing YAML file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML ({_problem(error)})") from None
    if loaded is None:
        raise ConfigError(f"{path}: is empty; it must hold a mapping of sections")
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: must hold a mapping of sections, holds {type(loaded).__name__}")
    return loaded


def _problem(error: Exception) -> str:
    """Return the fault and its line."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    message = problem or str(error).splitlines()[0]
    return message if mark is None else f"line {mark.line + 1}: {message}"


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge deeply; neither argument changes.

    >>> merge({"a": {"x": 1, "y": [1, 2]}}, {"a": {"y": [3]}})
    {'a': {'x': 1, 'y': [3]}}
    """
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of the configuration."""
    for name, field in model.model_fields.items():
        dotted = f"{prefix}{name}"
        inner, _ = unwrapped(field.annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys(inner, f"{dotted}.")
        else:
            yield dotted


def _explain(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"]) or "the whole"
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(where, list(keys()), n=1, cutoff=0.5)
        hint = f"; nearest known key: {near[0]}" if near else ""
        return f"{where} = {item['input']!r} is not a known key{hint}"
    if item["type"] == "missing":
        return f"{where} is missing; give it a value"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "string_type" and isinstance(item["input"], bool | int | float):
        message += "; put it in quotes"
    if item["input"] is None:
        message += "; null removes only what may be absent, so give a value"
    if where == "the whole" or item["type"] == "value_error":
        return message
    return f"{where} = {item['input']!r}: {message[0].lower()}{message[1:]}"
