r"""`grouped`: groups the answers of one question into votes for cons@k.

Two answers are one if the benchmark's own grader calls them equal. All answers graded right equal the gold, hence each
other; a wrong one never joins them. Wrong answers join along chains of equality, so neither the groups nor the score
depend on the order of the samples. Ties share the credit (`records.statistics.cons_at_k`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from records.verdict import Verdict, VerdictKind
from verifier.graders.policy import GradePolicy

VOTING = frozenset({VerdictKind.CORRECT, VerdictKind.WRONG})
"""Verdicts without a vote: the answer was missing, unreadable, too heavy, or not judged."""
MAX_VOTE_CHARS = 300
"""Longer wrong answers join only those with the same text, because comparing all pairs would take too long."""

Equal = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Vote:
    """The answer of one sample."""

    answer: str
    is_right: bool


def vote_of(verdict: Verdict, answer: str | None, policy: GradePolicy) -> Vote | None:
    """Return the vote of a graded sample; None where it has none.

    The integer rule rejects an answer that is no integer literal; such an answer has no vote.

    Args:
        verdict: the grader's verdict of the sample.
        answer: its answer, such as the option of a letter.
        policy: the grader's policy.

    >>> vote_of(Verdict(id="a", verdict=VerdictKind.UNPARSED), "?", GradePolicy()) is None
    True
    """
    if answer is None or verdict.verdict not in VOTING:
        return None
    is_right = verdict.verdict is VerdictKind.CORRECT
    if policy.integer_only and not is_right and not policy.choice:
        from verifier.answers.compare import Outcome, compare_integers

        if compare_integers(answer, answer).outcome is not Outcome.EQUAL:
            return None
    return Vote(answer.strip(), is_right)


def grouped(votes: Sequence[Vote | None], equal: Equal) -> list[str | None]:
    """Return the group of each vote, None where there is none.

    `equal` need not be transitive: 45 equals 45%, and 45% equals 0.45.

    >>> wrong = [Vote(answer, False) for answer in ("1", "1.0", "2")]
    >>> grouped([Vote("3", True), None, *wrong], lambda a, b: float(a) == float(b))
    ['right', None, 'wrong 1', 'wrong 1', 'wrong 2']
    """
    wrong = sorted({vote.answer for vote in votes if vote is not None and not vote.is_right})
    leader = {answer: answer for answer in wrong}
    for at, answer in enumerate(wrong):
        for earlier in wrong[:at]:
            if leader[earlier] != leader[answer] and equal(earlier, answer):
                kept, joined = sorted((leader[earlier], leader[answer]))
                leader |= {name: kept for name, first in leader.items() if first == joined}
    return [
        None if vote is None else "right" if vote.is_right else f"wrong {leader[vote.answer]}"
        for vote in votes
    ]


def equality(policy: GradePolicy) -> Equal:
    r"""Return the equality of the grader of `policy`, with either answer as the gold.

    >>> equality(GradePolicy())("0.5", r"\frac12"), equality(GradePolicy(integer_only=True))("4", r"\frac82")
    (True, False)
    """
    if policy.choice:
        return lambda a, b: a == b
    from verifier.answers.compare import Outcome, compare, compare_integers

    def equal(a: str, b: str) -> bool:
        if max(len(a), len(b)) > MAX_VOTE_CHARS:
            return False
        if policy.integer_only:
            return compare_integers(a, b).outcome is Outcome.EQUAL
        return Outcome.EQUAL in (compare(a, b).outcome, compare(b, a).outcome)

    return equal
