"""`Section` and the field types of the configuration."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from records.stages import CHECKPOINTS

Frac = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Betas = Annotated[list[Annotated[float, Field(ge=0.0, lt=1.0)]], Field(min_length=2, max_length=2)]
"""Decay rates of the two moments of AdamW."""


_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def _folder_name(value: str) -> str:
    if not _FOLDER_NAME.fullmatch(value):
        raise PydanticCustomError(
            "folder_name",
            "is not the name of a folder; give 1 to 100 letters, digits, _, - and ., the first no . or -",
        )
    return value


FolderName = Annotated[str, AfterValidator(_folder_name)]
"""The name of a folder or a file: no path, no `..`, not empty."""


def _checkpoint(value: str) -> str:
    if value not in CHECKPOINTS:
        raise PydanticCustomError(
            "checkpoint", "is no checkpoint of a run; give one of {known}", {"known": ", ".join(CHECKPOINTS)}
        )
    return value


CheckpointName = Annotated[
    str, AfterValidator(_checkpoint), WithJsonSchema({"type": "string", "enum": list(CHECKPOINTS)})
]
Text = Annotated[str, Field(min_length=1)]
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]


class Section(BaseModel):
    """Frozen, closed: an unknown key is an error; numbers are finite and not read from strings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
