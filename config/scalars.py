"""`load`, `dump`, `as_declared`: YAML 1.2 scalars, and values converted to the declared type of their key.

YAML 1.1, which PyYAML and Snakemake read, takes `off` for false, `1e-6` for text and `010` for 8. This module reads
files by the rules of YAML 1.2; `as_declared` corrects values that another reader took from YAML 1.1.
"""

from __future__ import annotations

import re
import types
from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from yaml.constructor import ConstructorError

_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""Words of YAML 1.1; YAML 1.2 keeps the first of each."""


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2 (core schema); it refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = (key_node.tag, key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen and key[0] != "tag:yaml.org,2002:merge":
                raise ConstructorError(None, None, f"{key[1]!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", _NUMBER.pattern + r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def _whole(loader: Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


Loader.add_constructor("tag:yaml.org,2002:int", _whole)


class Dumper(yaml.SafeDumper):
    """Quotes text that either version would read as something else."""


Dumper.yaml_implicit_resolvers = {
    first: [
        *Loader.yaml_implicit_resolvers.get(first, []),
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
    ]
    for first in {*Loader.yaml_implicit_resolvers, *yaml.SafeDumper.yaml_implicit_resolvers}
}


def dump(value: Any) -> str:
    """Write a document that every YAML reader reads alike, with keys in the order given.

    >>> dump({"a": "1e-6", "b": 1e-6, "c": "off", "d": True}).split()
    ['a:', "'1e-6'", 'b:', '1.0e-06', 'c:', "'off'", 'd:', 'true']
    """
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)


def load(text: str) -> Any:
    """Read one YAML document.

    >>> load("{a: 1e-6, b: off, c: 010, d: 0x10, e: 1:30, f: no, g: null, h: .5}")
    {'a': 1e-06, 'b': 'off', 'c': 10, 'd': 16, 'e': '1:30', 'f': 'no', 'g': None, 'h': 0.5}

    Raises:
        yaml.YAMLError: the text is no YAML, or gives a key twice.
    """
    try:
        return yaml.load(text, Loader)  # a subclass of SafeLoader
    except (RecursionError, ValueError) as error:  # nested too deeply; a number with too many digits
        raise yaml.YAMLError(str(error)) from None


def as_declared(value: Any, annotation: Any) -> Any:
    """Convert a value to its annotation if only one conversion is possible; otherwise return it unchanged.

    Numbers read as text become numbers, and words read as booleans become words again. null empties what may be empty:
    a list, a table of names, an entry of such a table, a section that declares `absent`.

    >>> from config.objective import ObjectiveSection
    >>> as_declared({"kl_weight": "2e-1", "overlong": "filter"}, ObjectiveSection)
    {'kl_weight': 0.2, 'overlong': 'filter'}
    """
    annotation, is_optional = unwrapped(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _section(value, annotation)
    origin = get_origin(annotation)
    if origin is dict:
        return _table(value, get_args(annotation)[1])
    if value is None:
        return [] if origin is list and not is_optional else None
    if origin is list and isinstance(value, list | tuple):
        return [as_declared(item, get_args(annotation)[0]) for item in value]
    if annotation is float and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if annotation is bool and isinstance(value, str):
        return _BOOLEANS.get(value.lower(), value)
    words = _words(annotation)
    if isinstance(value, bool) and words:
        return next((word for word in words if _BOOLEANS.get(word.lower()) is value), value)
    return value


def _section(value: Any, model: type[BaseModel]) -> Any:
    if value is None:
        return getattr(model, "ABSENT", None)
    if not isinstance(value, Mapping):
        return value
    fields = model.model_fields
    return {
        key: as_declared(item, fields[key].annotation) if key in fields else item
        for key, item in value.items()
    }


def _table(value: Any, annotation: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return value
    return {key: as_declared(item, annotation) for key, item in value.items() if item is not None}


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    """Return the annotation without `Annotated` and `| None`, and whether None is allowed."""
    if get_origin(annotation) is Annotated:
        return unwrapped(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        others = [item for item in get_args(annotation) if item is not type(None)]
        if len(others) == 1:
            return unwrapped(others[0])[0], True
    return annotation, annotation is type(None)


def _words(annotation: Any) -> list[str]:
    """Return the allowed words of an enumeration."""
    if get_origin(annotation) is Literal:
        return [item for item in get_args(annotation) if isinstance(item, str)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(item.value) for item in annotation]
    return []
