"""`FunctionEntry`: one entry of BFCL, read from its problem."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from records.problem import Problem

Message = dict[str, str]
"""Role and content."""
FunctionSchema = Mapping[str, Any]
"""The published JSON schema of one function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionEntry:
    """The published entry of a problem, which stores it as JSON."""

    id: str
    category: str
    user_turns: Sequence[Sequence[Message]]
    """Messages of each user turn."""
    functions: Sequence[FunctionSchema]
    withheld: Mapping[int, frozenset[str]]
    """User turn -> names of the functions that become available there."""
    gold: Sequence[Any]
    """Accepted calls, by user turn in a conversation; empty where the check compares no calls."""
    services: Sequence[str]
    """Simulated services of a conversation."""
    initial_config: Mapping[str, Any]
    """State of the services before the first call."""

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Read the entry; raises ValueError or KeyError if the problem holds none."""
        entry = json.loads(problem.params)
        withheld = entry.get("missed_function", {})
        return cls(
            id=problem.id,
            category=problem.family,
            user_turns=entry.get("question", []),
            functions=entry["function"],
            withheld={int(at): frozenset(names) for at, names in withheld.items()},
            gold=json.loads(problem.answer),
            services=entry.get("involved_classes", []),
            initial_config=entry.get("initial_config", {}),
        )

    @property
    def backend_record(self) -> dict[str, Any]:
        """Return the record that the simulated services receive."""
        return {"id": self.id, "initial_config": self.initial_config, "involved_classes": self.services}
