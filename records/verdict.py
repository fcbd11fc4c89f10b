"""The outcome of grading one answer, and the one rule that turns it into a reward."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self


class VerdictKind(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    """There is an answer, but it (or the gold) cannot be read."""
    NO_ANSWER = "no_answer"
    """The response holds no answer where one was asked for."""
    TIMEOUT = "timeout"
    """Comparing took longer than the limit: the answer was too heavy."""
    INFRA_FAILED = "infra_failed"
    """Grading itself broke; says nothing about the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One grader's word on one answer."""

    id: str
    verdict: VerdictKind
    extracted: str | None = None
    """The answer as found in the text; None when there was none."""
    rule: str = ""
    """Which rule decided, or why nothing could be decided: one short phrase."""
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
    """Reward of a verdict: 1 for correct, 0 for the model's failures, None when grading itself failed.

    Source: paper section 2.2.1 (outcome reward only); None instead of 0 for a broken grader because a zero
    would poison the group's baseline (public fault B38).

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
"""Each kind by name: a new one has no reward until somebody decides."""
