"""`Verdict` and `reward_of`: the outcome of grading one answer, and the rule that turns it into a reward."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self


class VerdictKind(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    """The answer (or the gold) cannot be read."""
    NO_ANSWER = "no_answer"
    """The response holds no answer where one was required."""
    TIMEOUT = "timeout"
    """The comparison exceeded its limit: the answer was too heavy."""
    INFRA_FAILED = "infra_failed"
    """Grading itself failed, which gives no information about the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One grader's judgement of one answer."""

    id: str
    verdict: VerdictKind
    extracted: str | None = None
    """The answer as found in the text; None when there was none."""
    rule: str = ""
    """The rule that decided, or the reason why none could: one short phrase."""
    seconds: float = 0.0
    grader: str = "strict"

    def without_clock(self) -> Verdict:
        return replace(self, seconds=0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        return cls(**{**record, "verdict": VerdictKind(record["verdict"])})


def reward_of(verdict: VerdictKind) -> float | None:
    """Return the reward of a verdict: 1 for correct, 0 for the model's failures, None when grading itself failed.

    Source: paper section 2.2.1 (outcome reward only). A failed grader gives None, because 0 would distort the group's
    baseline (public fault B38).

    >>> [reward_of(kind) for kind in VerdictKind]
    [1.0, 0.0, 0.0, 0.0, 0.0, None]
    """
    return _REWARDS[verdict]


_REWARDS: dict[VerdictKind, float | None] = {
    VerdictKind.CORRECT: 1.0,
    VerdictKind.WRONG: 0.0,
    VerdictKind.UNPARSED: 0.0,
    VerdictKind.NO_ANSWER: 0.0,
    VerdictKind.TIMEOUT: 0.0,
    VerdictKind.INFRA_FAILED: None,
}
"""Lists each kind by name: a new kind has no reward until somebody decides."""
