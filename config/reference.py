"""`faults`: the files generated from the configuration model: config/schema.json and docs/configuration.md.

Both come from `json_schema()` and the preset files, so `config/model.py` is the only place of a key, a bound or a
meaning. `faults` lists stored files and presets that are out of date.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.mapping import read_yaml
from config.model import Config, json_schema
from config.resolve import DEFAULTS, resolve
from config.scalars import dump
from records.errors import ConfigError

PRESETS = ("tiny", "micro", "smol", "small", "released", "paper")
"""All presets except the default, smallest cost first."""

HEAD = """\
# Configuration

<!-- Written by `python -m config docs` from config/model.py and the presets; do not edit. -->

`config/tiny.yaml`, the default preset, gives every key a value; every other file overrides some keys. Mappings merge
deeply, lists are replaced whole. YAML 1.2 applies: `1e-6` is a number, `off` a word, `010` ten. Sources of a value, the
weakest first:

1. `config/tiny.yaml`
2. files in their order: `--config` of a command, `--configfile` of Snakemake or `configfile` of a workflow profile
3. `--set key=value` of a command, `--config key=value` of Snakemake (nested values are text there; use a file)
4. `--profile paper` of `python -m evaluation run`; sources 3 and 5 override it
5. an option of a command with the same meaning, such as `-k`, `--temperature` or `--data`

Each `snakemake` call prints its sources. `null` removes a plan (`eval.plans.NAME: null`), empties a list, and switches
`arms`, `sft.noise` and `rl.filter` off. `python -m config show --config FILE --set a.b=c` prints the resolved whole.

An unknown key, a wrong type, a value out of bounds and contradictory settings
([contradictions.py](../config/contradictions.py)) stop a run before its first job, with the nearest known key, the
allowed values or a remedy. So does a missing checkpoint folder, benchmark file, GPU or preloaded module.

All sections except [runtime](#runtime) are semantic: they enter rule parameters and digests. A changed key reruns the
rules whose command reads its section ([commands.py](../config/commands.py)) and all later ones. A changed `runtime`
reruns nothing.

How to use presets and keys: [guide.md](guide.md). Reasons for defaults: [decisions.md](decisions.md). JSON schema for
editors: [config/schema.json](../config/schema.json).
"""


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the reference."""

    name: str
    type: str
    bound: str
    meaning: str
    default: str


@dataclass(frozen=True, slots=True)
class Generated:
    """A file and its required content."""

    path: Path
    command: str
    text: Callable[[], str]


def as_yaml(config: Config) -> str:
    """Format a whole configuration as tiny.yaml, with keys in the order of the model."""
    return dump(config.model_dump(mode="json"))


def schema_text() -> str:
    """config/schema.json."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=True) + "\n"


def docs_text() -> str:
    """docs/configuration.md."""
    schema = json_schema()
    defaults = read_yaml(DEFAULTS)
    pieces = [HEAD]
    for sections, model in _tables(schema):
        pieces.append(f"## {', '.join(sections)}\n")
        if model.get("description"):
            pieces.append(model["description"].strip() + "\n")
        pieces.append(_table(list(_keys(schema, model, sections, defaults))))
    return "\n".join(pieces)


def faults() -> list[str]:
    """Return presets that do not resolve and generated files that differ, one line each."""
    found = []
    for path in sorted(DEFAULTS.parent.glob("*.yaml")):
        try:
            resolve([path])
        except ConfigError as error:
            found.append(str(error))
    for item in GENERATED:
        stored = item.path.read_text(encoding="utf-8") if item.path.is_file() else None
        if stored != item.text():
            found.append(f"{item.path.name} differs from config/; rewrite it with `{item.command}`")
    return found


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and values of a nested mapping.

    >>> list(leaves({"a": {"b": 1, "c": [2]}, "d": None}))
    [('a.b', 1), ('a.c', [2]), ('d', None)]
    """
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from leaves(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def _tables(schema: Any) -> list[tuple[list[str], Any]]:
    """Return sections with their model; sections of one model form one entry."""
    tables: list[tuple[list[str], Any]] = []
    for section, model in _sections(schema, schema, ""):
        if tables and tables[-1][1] is model:
            tables[-1][0].append(section)
        else:
            tables.append(([section], model))
    return tables


def _sections(schema: Any, model: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield every mapping of the configuration that has its own keys, with its dotted name."""
    for name, field in model["properties"].items():
        dotted = f"{prefix}{name}"
        inner = _model_of(schema, field)
        if inner is not None:
            if any(_model_of(schema, item) is None for item in inner["properties"].values()):
                yield dotted, inner
            yield from _sections(schema, inner, f"{dotted}.")
        elif (item := _model_of(schema, field.get("additionalProperties") or {})) is not None:
            yield f"{dotted}.NAME", item
        elif not prefix:
            yield (
                dotted,
                {"description": field["description"], "properties": {"NAME": field["additionalProperties"]}},
            )


def _keys(schema: Any, model: Any, sections: list[str], defaults: Mapping[str, Any]) -> Iterator[Key]:
    for name, field in model["properties"].items():
        if _model_of(schema, field) is not None:
            continue
        variants = [_resolved(schema, item) for item in field.get("anyOf", field.get("oneOf", [field]))]
        yield Key(
            name=name,
            type=" or ".join(dict.fromkeys(_type(schema, item) for item in variants)),
            bound=", ".join(filter(None, (_bound(item) for item in variants))),
            meaning=" ".join(field.get("description", "").split()),
            default="; ".join(dict.fromkeys(_default(defaults, f"{section}.{name}") for section in sections)),
        )


def _resolved(schema: Any, field: Any) -> Any:
    reference = field.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else field


def _model_of(schema: Any, field: Any) -> Any:
    """Return the mapping that a field may hold, or None."""
    (target, *others) = [
        _resolved(schema, item) for item in field.get("anyOf", [field]) if item.get("type") != "null"
    ]
    if others:
        return None
    return target if "properties" in target else None


def _type(schema: Any, field: Any) -> str:
    if "const" in field or "enum" in field:
        return "text" if isinstance(field.get("const", ""), str) else "float"
    if field["type"] == "array":
        return f"list of {_type(schema, _resolved(schema, field['items']))}"
    if field["type"] == "object":
        return "mapping"
    plain = {"string": "text", "boolean": "bool", "integer": "int", "number": "float"}
    return plain.get(field["type"], str(field["type"]))


def _bound(field: Any) -> str:
    if "const" in field:
        return _value(field["const"])
    if "minimum" in field and field["minimum"] == field.get("maximum"):
        return _value(field["minimum"])
    if "enum" in field:
        return ", ".join(_value(value) for value in field["enum"])
    if field["type"] == "array":
        return _bound(field["items"]) if "$ref" not in field["items"] else ""
    if "minimum" in field and "maximum" in field:
        return f"in [{field['minimum']:g}, {field['maximum']:g}]"
    signs = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
    return " and ".join(f"{sign} {field[name]:g}" for name, sign in signs if name in field)


def _default(defaults: Mapping[str, Any], dotted: str) -> str:
    value: Any = defaults
    for part in dotted.split("."):
        if part == "NAME":
            return ""
        value = value[part]
    return ", ".join(value) if isinstance(value, Mapping) else _value(value)


def _value(value: Any) -> str:
    """Format a YAML value on one line.

    >>> [_value(v) for v in (None, True, 5e-4, 1e-6, [0.9, 0.95], "all", {"a": None})]
    ['null', 'true', '0.0005', '1e-6', '[0.9, 0.95]', 'all', '{a: null}']
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value).replace("e-0", "e-")
    return str(value) if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(keys: list[Key]) -> str:
    lines = ["| key | value | tiny | meaning |", "|---|---|---|---|"]
    for key in keys:
        value = f"{key.type} {key.bound}".removeprefix("text ") if key.bound else key.type
        cells = (f"`{key.name}`", value, key.default, key.meaning)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


GENERATED = (
    Generated(DEFAULTS.with_name("schema.json"), "python -m config schema", schema_text),
    Generated(DEFAULTS.parents[1] / "docs" / "configuration.md", "python -m config docs", docs_text),
)
