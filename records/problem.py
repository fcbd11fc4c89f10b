"""`Problem`: one question with a checkable answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from records.problem_params import ProblemParams, params_of, params_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One question with a checkable answer."""

    id: str
    prompt: str
    answer: str
    """Gold answer. IFEval and BFCL have their gold in `params`; their answer is its text, for the digest alone."""
    family: str = ""
    """Procedural family, subject or category."""
    level: int = 0
    """Difficulty, from 1; 0 where the source states none."""
    split: str = ""
    """sft, train, dev, or the test ring: numbers, composition, wording, family."""
    params: ProblemParams | None = None

    def to_json(self) -> dict[str, Any]:
        """One line of a problem file."""
        row = {column.name: getattr(self, column.name) for column in fields(self)}
        return {**row, "params": params_text(self.params)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote. Raises TypeError for an unknown key, ValueError for unreadable parameters."""
        return cls(**{**record, "params": params_of(record.get("params", ""))})
