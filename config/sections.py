"""What one command may read: the sections it declares, and nothing else.

A rule passes these sections as one canonical JSON string, so that Snakemake reruns exactly what a changed key
touches. Reading another section is an AttributeError, not a stale result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from config.model import Config
from records.digest import canonical
from records.errors import ConfigError


def sections_json(config: Config, sections: Sequence[str]) -> str:
    """The declared sections (dotted names) of a configuration as canonical JSON."""
    dumped = config.model_dump(mode="json")
    return canonical({section: _lookup(dumped, section) for section in sections})


def load_sections(text: str, sections: Sequence[str], *, source: str = "--sections") -> Any:
    """Read what `sections_json` wrote; attributes nest as in the configuration.

    Raises ConfigError when a declared section is missing, an undeclared one is present, or a value is wrong.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not JSON ({error})") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{source}: must be a JSON object of sections, is {type(given).__name__}")
    if set(given) != set(sections):
        raise ConfigError(f"{source}: holds {sorted(given)}, this command reads {sorted(sections)}")
    view = SimpleNamespace()
    for section in sections:
        _attach(view, section, _validate(section, given[section], source))
    return view


def view_of(config: Config, sections: Sequence[str]) -> Any:
    """The declared sections of a resolved configuration, as `load_sections` gives them."""
    return load_sections(sections_json(config, sections), sections)


def _lookup(dumped: Any, section: str) -> Any:
    for part in section.split("."):
        dumped = dumped[part]
    return dumped


def _annotation(section: str) -> Any:
    model: Any = Config
    for part in section.split("."):
        model = model.model_fields[part].annotation
    return model


def _validate(section: str, value: Any, source: str) -> Any:
    annotation = _annotation(section)
    try:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation.model_validate_json(json.dumps(value))
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([section, *(str(part) for part in first["loc"])])
        raise ConfigError(f"{source}: {where}: {first['msg']}") from None


def _attach(view: SimpleNamespace, section: str, value: Any) -> None:
    *parents, name = section.split(".")
    for parent in parents:
        if not hasattr(view, parent):
            setattr(view, parent, SimpleNamespace())
        view = getattr(view, parent)
    setattr(view, name, value)
