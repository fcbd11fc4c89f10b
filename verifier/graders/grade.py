r"""`grade`: the entry to grading for RL and evaluation; command lines and tests call `grade_answer`.

It decides an integer gold against an integer box in microseconds; everything else goes to `verifier.answers.compare`,
and notation that this cannot read goes to a worker process. An exception of a grader becomes `infra_failed`, never
a score.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from records.verdict import Verdict, VerdictKind
from verifier.answers.extract import Extraction, extract, extract_letter, without_end_marks
from verifier.budget import TooHeavy, budget, is_spent, spend, used_s
from verifier.graders.policy import CASE_LIMIT_S, MAX_RESPONSE_CHARS, GradePolicy, GraderName

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout
    from verifier.answers.compare import Comparison

_SMALL_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_SYMBOLIC = re.compile(r"\\(?:int|lim|sum|prod|partial|nabla|Re|Im|arg|zeta|Gamma)(?![A-Za-z])")

DEFAULT_POLICY = GradePolicy()


def grade(problem: Problem, rollout: Rollout, policy: GradePolicy = DEFAULT_POLICY) -> dict[str, Verdict]:
    """Return one verdict per grader of the policy, from sampled tokens only.

    It searches the text of the last turn, and does not read tool responses or the pre-filled opening. An aborted
    rollout is a failure of the infrastructure: `infra_failed`.
    """
    from records.trajectory import StopReason

    if not rollout.stop.is_models:
        return {
            name: _verdict(problem.id, VerdictKind.INFRA_FAILED, "aborted", name) for name in policy.graders
        }
    truncated = rollout.stop in (StopReason.LENGTH, StopReason.CONTEXT)
    texts = [without_end_marks(turn.text) for turn in rollout.turns]
    verdicts: dict[str, Verdict] = {}
    for name in policy.graders:
        text = "\n".join(texts[-1:] if name is GraderName.STRICT else texts)
        if truncated and policy.truncated_is_wrong:
            verdicts[name] = _verdict(problem.id, VerdictKind.NO_ANSWER, "truncated at the token limit", name)
        else:
            verdicts[name] = grade_answer(
                problem.answer,
                text,
                policy,
                id=problem.id,
                grader=name,
                truncated=truncated,
                opened=policy.opened,
            )
    return verdicts


def grade_answer(
    gold: str,
    response: str,
    policy: GradePolicy = DEFAULT_POLICY,
    *,
    id: str = "",
    grader: GraderName = GraderName.STRICT,
    truncated: bool = False,
    opened: bool = False,
) -> Verdict:
    r"""Grade the text of one response.

    Args:
        gold: the right answer.
        response: the text that the policy sampled.
        policy: rules of acceptance.
        id: of the problem.
        grader: strict or rstar_compat.
        truncated: the response was cut at the token limit.
        opened: the response begins inside the reasoning.

    >>> grade_answer("5", r"<answer>\boxed{5}</answer>").verdict.value
    'correct'
    >>> grade_answer("5", "There are 5 apples").verdict.value
    'no_answer'
    """
    start = time.perf_counter()
    try:
        with budget():
            kind, extracted, rule = _graded(gold, response, policy, grader, truncated, opened)
    except (TooHeavy, RecursionError) as error:
        kind, extracted, rule = VerdictKind.TIMEOUT, None, str(error)
    except Exception as error:  # a fault of the grader must be visible and must not score
        kind, extracted, rule = VerdictKind.INFRA_FAILED, None, f"{type(error).__name__}: {error}"[:200]
    return Verdict(
        id=id,
        verdict=kind,
        extracted=extracted,
        rule=rule,
        seconds=time.perf_counter() - start,
        grader=grader.value,
    )


_Graded = tuple[VerdictKind, str | None, str]


def _graded(
    gold: str, response: str, policy: GradePolicy, grader: GraderName, truncated: bool, opened: bool
) -> _Graded:
    if not gold.strip():
        return VerdictKind.UNPARSED, None, "the gold is empty"
    if len(response) > MAX_RESPONSE_CHARS:
        return VerdictKind.UNPARSED, None, f"response longer than {MAX_RESPONSE_CHARS} characters"
    spend(len(response) // 50)
    if grader is GraderName.STRICT:
        return _strict(gold, response, policy, truncated, opened)
    return _compat(gold, response)


def _verdict(id: str, kind: VerdictKind, rule: str, grader: GraderName) -> Verdict:
    return Verdict(id=id, verdict=kind, rule=rule, grader=grader.value)


def _strict(gold: str, response: str, policy: GradePolicy, truncated: bool, opened: bool) -> _Graded:
    if policy.choice:
        return _choice(gold, response)
    found = extract(response, require=policy.require, truncated=truncated, opened=opened)
    if found.answer is None:
        return VerdictKind.NO_ANSWER, None, _flagged(found.rule, found)
    if _SMALL_INTEGER.fullmatch(gold) and _SMALL_INTEGER.fullmatch(found.answer):
        kind = VerdictKind.CORRECT if int(gold) == int(found.answer) else VerdictKind.WRONG
        return kind, found.answer, _flagged("integer", found)
    from verifier.answers.compare import Outcome, compare, compare_integers, integer_literal

    if policy.integer_only and integer_literal(gold) is not None:
        result = compare_integers(gold, found.answer)
    else:
        result = compare(gold, found.answer)
        if result.outcome is Outcome.UNREADABLE:
            kind, rule = _ask_worker(gold, found.answer, result)
            return kind, found.answer, _flagged(rule, found)
    return _KINDS[result.outcome.value], found.answer, _flagged(result.rule, found)


def _choice(gold: str, response: str) -> _Graded:
    found = extract_letter(response)
    if found.answer is None:
        return VerdictKind.NO_ANSWER, None, found.rule
    if not re.fullmatch("[A-D]", found.answer):
        return VerdictKind.UNPARSED, None, f"no letter; from {found.rule}"
    kind = VerdictKind.CORRECT if found.answer == gold.strip() else VerdictKind.WRONG
    return kind, found.answer, _flagged("letter", found)


_KINDS = {
    "equal": VerdictKind.CORRECT,
    "different": VerdictKind.WRONG,
    "unreadable": VerdictKind.UNPARSED,
    "too_heavy": VerdictKind.TIMEOUT,
}


def _flagged(rule: str, found: Extraction) -> str:
    parts = [rule] if found.rule in ("box", rule) else [rule, f"from {found.rule}"]
    if found.num_boxes > 1:
        parts.append(f"last of {found.num_boxes} boxes")
    return "; ".join(parts)


def _ask_worker(gold: str, answer: str, unread: Comparison) -> tuple[VerdictKind, str]:
    """Ask the symbolic engine, but only about expressions with an operator of calculus, or a fraction of such."""
    from verifier.notation.normalise import normalise

    left, right = normalise(gold), normalise(answer)
    if not (_worth_trying(left) and _worth_trying(right)) or not (
        _SYMBOLIC.search(left) or _SYMBOLIC.search(right)
    ):
        return VerdictKind.UNPARSED, f"unreadable: {unread.rule}"
    from verifier.graders.workers import shared_pool

    reply = shared_pool().ask("equal", left, right, max(0.0, CASE_LIMIT_S - used_s()))
    if reply.timed_out:
        return VerdictKind.TIMEOUT, "symbolic comparison passed its limit"
    if reply.failed:
        return VerdictKind.INFRA_FAILED, f"symbolic: {reply.failed}"
    if reply.error:
        return VerdictKind.UNPARSED, f"symbolic: {reply.error}"
    if reply.value is None:
        return VerdictKind.UNPARSED, f"unreadable: {unread.rule}"
    return VerdictKind.CORRECT if reply.value else VerdictKind.WRONG, "symbolic"


_DANGLING = re.compile(r"[\^_+\-*/] ?(?:$|[)}\]*/^_])|^[\^_*/.|]|\|$|\{ ?\}")
"""A sign without its operand; the engine ignores such a sign."""
_SYMBOLIC_TOKEN = re.compile(
    r"\\(?:int|lim|sum|prod|partial|nabla|Re|Im|arg|zeta|Gamma|frac|binom|sqrt|infty|to|rightarrow|pi|cdot"
    r"|sin|cos|tan|cot|sec|csc|ln|log|exp|arcsin|arccos|arctan|sinh|cosh|tanh|lfloor|rfloor|lceil|rceil|min|max|gcd"
    r"|alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma|tau)(?![A-Za-z])|[0-9]+|(?<![A-Za-z])[A-Za-z]{1,2}(?![A-Za-z])"
    r"|[ {}()\[\]^_+\-*/.,|!]"
)


def _worth_trying(text: str) -> bool:
    """Return whether the engine can read all of a text: it drops unknown signs and words, and keeps the numbers."""
    text = re.sub(r"_\s*\{\s*\w\s*=", "_{", text)  # the index of a sum is no equation
    closed = all(text.count(left) == text.count(right) for left, right in ("{}", "()", "[]"))
    return len(text) <= 400 and closed and not _DANGLING.search(text) and not _SYMBOLIC_TOKEN.sub("", text)


def _compat(gold: str, response: str) -> _Graded:
    from verifier.graders.rstar_compat import extract_loosely, loosely_equal

    answer = extract_loosely(response)
    if answer.isdecimal() and len(answer) <= 18:
        answer = str(int(answer))
    if _SMALL_INTEGER.fullmatch(gold) and _SMALL_INTEGER.fullmatch(answer):
        expected, found = int(gold), int(answer)
        close = any(
            abs(expected * scale - found) <= 1e-4 * max(abs(expected * scale), abs(found))
            for scale in (0.01, 1, 100)
        )
        return VerdictKind.CORRECT if close else VerdictKind.WRONG, answer, "loose integer"
    if loosely_equal(gold, answer):
        return VerdictKind.CORRECT, answer, "loose"
    from verifier.graders.workers import shared_pool

    if len(response) > 200_000 or is_spent() or _is_bomb(answer):
        return VerdictKind.TIMEOUT, answer, "too heavy for math-verify"
    reply = shared_pool().ask("math_verify", gold, response, max(0.0, CASE_LIMIT_S - used_s()))
    if reply.timed_out:
        return VerdictKind.TIMEOUT, answer, "math-verify passed its limit"
    if reply.failed:
        return VerdictKind.INFRA_FAILED, answer, f"math-verify: {reply.failed}"
    if reply.error:
        return VerdictKind.UNPARSED, answer, f"math-verify: {reply.error}"
    return VerdictKind.CORRECT if reply.value else VerdictKind.WRONG, answer, "math-verify"


def _is_bomb(answer: str) -> bool:
    """Return whether computing this certainly takes longer than the limit."""
    from verifier.answers.compare import Outcome, compare

    return "," not in answer and compare("0", answer).outcome is Outcome.TOO_HEAVY
