"""`ProblemParams`: what a problem holds beyond prompt and answer, one frozen record per kind.

A problem file has one column of text for it. Only `params_text` and `params_of` write and read that text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

Message = dict[str, str]
"""Role and content."""
FunctionSchema = Mapping[str, Any]
"""The published JSON schema of one function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A procedural problem: its generator and the numbers drawn."""

    family: str
    """Key of the generator, such as `lcm` or `composition:lcm*digit_sum`."""
    values: tuple[int, ...]

    @property
    def text(self) -> str:
        """Canonical JSON; its hash decides the split and the id.

        >>> Generated(family="lcm", values=(30, 12)).text
        '{"family":"lcm","values":[30,12]}'
        """
        return json.dumps({"family": self.family, "values": self.values}, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A question of multiple choice."""

    question: str
    options: tuple[str, ...]
    """The right one first."""
    order: tuple[int, ...]
    """Option at each letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One checkable instruction of a prompt of IFEval."""

    id: str
    """Type, such as punctuation:no_comma."""
    kwargs: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """The instructions of a prompt, in order."""

    items: tuple[Instruction, ...]

    @property
    def answer(self) -> str:
        """The text of the gold, for the digest of the benchmark."""
        return json.dumps([asdict(item) for item in self.items])


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionEntry:
    """The published entry of a question of BFCL."""

    id: str
    category: str
    user_turns: Sequence[Sequence[Message]]
    """Messages of each user turn."""
    functions: Sequence[FunctionSchema]
    withheld: Mapping[int, Sequence[str]]
    """User turn -> names of the functions that become available there."""
    gold: Sequence[Any]
    """Accepted calls, by user turn in a conversation; empty where the check compares no calls."""
    services: Sequence[str]
    """Simulated services of a conversation."""
    initial_config: Mapping[str, Any]
    """State of the services before the first call."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Read a published row with its gold calls. Raises KeyError if it lacks id, category, functions or gold."""
        return cls(
            id=row["id"],
            category=row["category"],
            user_turns=row.get("question", []),
            functions=row["function"],
            withheld={int(at): names for at, names in row.get("missed_function", {}).items()},
            gold=row["ground_truth"],
            services=row.get("involved_classes", []),
            initial_config=row.get("initial_config", {}),
        )

    @property
    def answer(self) -> str:
        """The text of the gold, for the digest of the benchmark."""
        return json.dumps(self.gold)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def backend_record(self) -> dict[str, Any]:
        """Return the record that the simulated services receive."""
        return {"id": self.id, "initial_config": self.initial_config, "involved_classes": self.services}


ProblemParams = Generated | Options | Instructions | FunctionEntry


def params_text(params: ProblemParams | None) -> str:
    """The column of a problem file: empty without parameters.

    >>> params_of(params_text(Options(question="?", options=("x", "y"), order=(1, 0)))).order
    (1, 0)
    """
    if params is None:
        return ""
    return (
        params.text if isinstance(params, Generated) else json.dumps({_NAMES[type(params)]: asdict(params)})
    )


def params_of(text: str) -> ProblemParams | None:
    """Read what `params_text` wrote. Raises ValueError where `text` is something else."""
    if text == "":
        return None
    try:
        record = json.loads(text)
        if record.keys() == {"family", "values"}:
            return Generated(family=record["family"], values=tuple(record["values"]))
        ((name, fields),) = record.items()
        return _READERS[name](fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"params {text[:80]!r} hold no record of a known kind ({error!r:.80})") from None


def _options(fields: Mapping[str, Any]) -> Options:
    return Options(
        question=fields["question"], options=tuple(fields["options"]), order=tuple(fields["order"])
    )


def _instructions(fields: Mapping[str, Any]) -> Instructions:
    return Instructions(items=tuple(Instruction(**item) for item in fields["items"]))


def _function_entry(fields: Mapping[str, Any]) -> FunctionEntry:
    return FunctionEntry(
        **{**fields, "withheld": {int(at): names for at, names in fields["withheld"].items()}}
    )


_NAMES = {Options: "options", Instructions: "instructions", FunctionEntry: "function_entry"}
_READERS = {"options": _options, "instructions": _instructions, "function_entry": _function_entry}
