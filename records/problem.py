"""`Problem`: one question with a checkable answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One question with a checkable answer."""

    id: str
    prompt: str
    answer: str
    family: str = ""
    """Procedural family, subject or category."""
    level: int = 0
    """Difficulty, from 1; 0 where the source states none."""
    split: str = ""
    """sft, train, dev, or the test ring: numbers, composition, wording, family."""
    params: str = ""
    """Canonical JSON of the generator's parameters; its hash decides the split."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        return cls(**record)
