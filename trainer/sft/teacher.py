"""`write_transcripts`: the SFT teacher, which writes transcripts for a small model to imitate, with planted flaws.

A transcript is a list of assistant turns: reason, tool call, and finally `<answer>` blocks. Every tool response is a
real result of the sandbox. Each document is a coroutine that yields its calls; all documents advance together, with one
batch of calls per wave. docs/problems.md lists the planted flaws and their reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from random import Random

from config.model import SftNoiseSection
from records.errors import UserError
from records.problem import Problem
from records.tool_call import Limits, Status, ToolCall, ToolResult
from trainer.problems.catalogue import family_and_params
from trainer.problems.composition import Composition
from trainer.problems.family import Family, Params, ProblemError, digest

RunMany = Callable[[list[ToolCall]], list[ToolResult]]
"""Runs calls in the sandbox and returns one result each, in any order."""

_REASONS = ("I will compute this with Python.", "Let me use Python.", "I can write code for this.")
_REASONS_TWO_CALLS = ("First I compute A.", "I start with A.", "A comes first.")
_REASONS_REST = ("A is {value}. Now the rest.", "So A is {value}. Now B.")
_REASONS_AFTER_ERROR = (
    "There is an error. I fix the code.",
    "The code failed. Let me try again.",
    "I made a mistake.",
)
_REASONS_GIVE_UP = ("The code fails. I guess.", "I give up on the code.")
_REASONS_MENTAL = ("I can do this in my head.", "No code is needed.", "This is easy.")
_REASONS_VERIFY = ("The result is {value}. Let me check it.", "I get {value}. I run it again.")
_REASONS_FINAL = ("The result is {value}.", "The tool prints {value}.", "So it is {value}.")
_VERBOSE = (
    "Let me read the question again and think about what it asks. ",
    "I want to be careful here, so I go through it step by step. ",
)
_MAX_RETRIES = 2
TWO_CALLS_WRONG_SCALE = 0.6
"""Factor on the rate of wrong formulas in two calls; it makes two calls the better solution."""
_LONG_LEVEL = 4
_MAX_LONG_CALLS = 2
"""A third copy of a long program would exceed every stage's budget."""


class TeacherError(UserError):
    """The transcripts could not be written; the message gives the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherTurn:
    """One assistant turn: the text after the pre-filled `<reason>`, without the end-of-turn token."""

    text: str
    call: ToolCall | None = None
    result: ToolResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherRow:
    """A transcript and its planted flaws."""

    problem: Problem
    turns: tuple[TeacherTurn, ...]
    answer: str
    """Content of the answer blocks."""
    computed: bool
    """True if the shown answer is the output of the transcript's last successful call; False: it is a guess."""
    wrong_formula: bool
    two_calls: bool
    gave_up: bool
    verified: bool
    num_answers: int

    @property
    def correct(self) -> bool:
        return self.answer == self.problem.answer

    @property
    def num_calls(self) -> int:
        return sum(turn.call is not None for turn in self.turns)

    @property
    def num_errors(self) -> int:
        return sum(turn.result is not None and turn.result.status is not Status.OK for turn in self.turns)

    @property
    def leaks_answer(self) -> bool:
        """True if the true answer occurs in the text before, or without, a tool that printed it."""
        printed = False
        for turn in self.turns:
            shown = re.sub(r"<tool_call>.*</tool_call>", "", turn.text, flags=re.DOTALL)
            if not printed and re.search(rf"(?<![\d-]){re.escape(self.problem.answer)}(?!\d)", shown):
                return True
            printed = printed or (turn.result is not None and _value(turn.result) == self.problem.answer)
        return False


@dataclass(slots=True, kw_only=True)
class _Plan:
    """Random choices of one document, drawn before it is written."""

    no_tool: bool
    wrong: bool
    two_calls: bool
    verify: bool
    num_answers: int
    gave_up: bool = False
    verified: bool = False


_Script = Generator[ToolCall, ToolResult, TeacherRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes one document."""

    problem: Problem
    family: Family
    params: Params
    noise: SftNoiseSection
    rng: Random
    tool_name: str
    limits: Limits
    max_calls: int

    def script(self) -> _Script:
        """The document as a coroutine: it yields calls, receives their results and returns the row."""
        plan = self._plan()
        turns: list[TeacherTurn] = []
        if plan.no_tool:
            return self._finish(plan, turns, None, _REASONS_MENTAL)
        if plan.two_calls and isinstance(self.family, Composition):
            value = yield from self._two_calls(self.family, plan, turns)
        else:
            value = yield from self._attempt(plan, turns, self._program(plan.wrong), _REASONS)
        if value is not None and plan.verify and len(turns) < self.max_calls:
            plan.verified = True
            again = self._program(plan.wrong)
            value = yield from self._attempt(
                plan, turns, again, tuple(r.format(value=value) for r in _REASONS_VERIFY), may_fail=False
            )
        return self._finish(plan, turns, value, _REASONS_FINAL if value is not None else _REASONS_GIVE_UP)

    def _plan(self) -> _Plan:
        rng, noise = self.rng, self.noise
        two_calls = isinstance(self.family, Composition) and rng.random() < noise.two_calls
        wrong_rate = noise.wrong_formula[self.family.level - 1]
        return _Plan(
            two_calls=two_calls,
            wrong=rng.random() < wrong_rate * (TWO_CALLS_WRONG_SCALE if two_calls else 1.0),
            no_tool=rng.random() < noise.no_tool,
            verify=rng.random() < noise.verify,
            num_answers=1 if rng.random() >= noise.repeat_answer else rng.choice((2, 3)),
        )

    def _program(self, wrong: bool) -> str:
        if wrong and (programs := self.family.wrong_formula_programs(self.params)):
            return self.rng.choice(programs)
        return self.rng.choice(self.family.right_programs(self.params))

    def _two_calls(
        self, family: Composition, plan: _Plan, turns: list[TeacherTurn]
    ) -> Generator[ToolCall, ToolResult, str | None]:
        wrong_first = plan.wrong and self.rng.random() < 0.5
        first = family.first_program(self.params, wrong=wrong_first)
        value = yield from self._attempt(plan, turns, first, _REASONS_TWO_CALLS, spare=1)
        if value is None:
            return None
        second = family.second_program(self.params, value, wrong=plan.wrong and not wrong_first)
        reasons = tuple(r.format(value=value) for r in _REASONS_REST)
        return (yield from self._attempt(plan, turns, second, reasons, may_fail=False))

    def _attempt(
        self,
        plan: _Plan,
        turns: list[TeacherTurn],
        code: str,
        reasons: tuple[str, ...],
        *,
        spare: int = 0,
        may_fail: bool = True,
    ) -> Generator[ToolCall, ToolResult, str | None]:
        """Run `code`, possibly with an inserted error, until it prints a number; None after giving up.

        `spare` calls are reserved for later turns; the last allowed call never gets an error.
        """
        rng, noise = self.rng, self.noise
        bug_rate = noise.first_bug if may_fail else 0.0
        while len(turns) < self.max_calls - spare:
            last = len(turns) == self.max_calls - spare - 1
            spoilt = not last and rng.random() < bug_rate
            shown = rng.choice(self.family.bug_programs(code, self.params)) if spoilt else code
            call = self._call(shown, len(turns))
            result = yield call
            turns.append(
                TeacherTurn(text=self._tool_turn(rng.choice(reasons), shown), call=call, result=result)
            )
            if (value := _value(result)) is not None:
                return value
            if rng.random() < noise.give_up:
                plan.gave_up = True
                return None
            bug_rate, reasons = noise.retry_bug, _REASONS_AFTER_ERROR
        return None

    def _call(self, code: str, index: int) -> ToolCall:
        identity = f"{self.problem.id}/teacher/{index}"
        return ToolCall(id=identity, code=code, limits=self.limits, seed=digest(identity) % 2**31)

    def _tool_turn(self, reason: str, code: str) -> str:
        call = json.dumps({"name": self.tool_name, "arguments": {"code": code, "input": ""}})
        return f"{self._wordy(reason)}</reason>\n<tool_call>\n{call}\n</tool_call>"

    def _wordy(self, reason: str) -> str:
        return self.rng.choice(_VERBOSE) + reason if self.rng.random() < self.noise.verbose else reason

    def _finish(
        self, plan: _Plan, turns: list[TeacherTurn], value: str | None, reasons: tuple[str, ...]
    ) -> TeacherRow:
        answer = value if value is not None else self._guess()
        reason = self._wordy(self.rng.choice(reasons).format(value=answer))
        blocks = "\n".join([f"<answer>\\boxed{{{answer}}}</answer>"] * plan.num_answers)
        return TeacherRow(
            problem=self.problem,
            turns=(*turns, TeacherTurn(text=f"{reason}</reason>\n{blocks}")),
            answer=answer,
            computed=value is not None,
            wrong_formula=plan.wrong and not plan.no_tool,
            two_calls=plan.two_calls and not plan.no_tool,
            gave_up=plan.gave_up,
            verified=plan.verified,
            num_answers=plan.num_answers,
        )

    def _guess(self) -> str:
        """A wrong number of about the right size."""
        num_digits = len(self.problem.answer.lstrip("-"))
        while True:
            guess = str(self.rng.randrange(10 ** (num_digits - 1), 10**num_digits))
            if guess != self.problem.answer:
                return guess


def write_transcripts(
    problems: Sequence[Problem],
    *,
    run_many: RunMany,
    noise: SftNoiseSection,
    seed: int,
    tool_name: str,
    limits: Limits | None = None,
    max_calls: int = 3,
) -> list[TeacherRow]:
    """Write one transcript per problem.

    Args:
        problems: from `generate_splits`.
        run_many: runs a batch of calls; see `RunMany`. Called once per wave, at most `max_calls` times if no
            call is lost.
        noise: rates of the planted flaws.
        seed: seed of the choices; those of a problem depend on (seed, problem id) only.
        tool_name: name in the tool call.
        limits: limits of each call.
        max_calls: calls of one transcript; it has at most one more turn.

    Returns:
        One row per problem, in order.

    Raises:
        ProblemError: a problem is not from a known family, or `max_calls` < 2.
        TeacherError: the sandbox lost calls repeatedly, or returned no result for some.
    """
    if max_calls < 2:
        raise ProblemError(f"max_calls is {max_calls}; the solution in two calls needs at least 2")
    limits = limits or Limits()
    scripts: list[_Script] = []
    for problem in problems:
        family, params = family_and_params(problem)
        writer = _Writer(
            problem=problem,
            family=family,
            params=params,
            noise=noise,
            rng=Random(digest(f"teacher|{seed}|{problem.id}")),
            tool_name=tool_name,
            limits=limits,
            max_calls=min(max_calls, _MAX_LONG_CALLS) if family.level == _LONG_LEVEL else max_calls,
        )
        scripts.append(writer.script())
    return _advance_together(scripts, run_many)


def _advance_together(scripts: list[_Script], run_many: RunMany) -> list[TeacherRow]:
    """Run coroutines in waves: all their next calls go to the sandbox as one batch."""
    rows: list[TeacherRow | None] = [None] * len(scripts)
    replies: dict[int, ToolResult | None] = dict.fromkeys(range(len(scripts)))
    while replies:
        calls: dict[int, ToolCall] = {}
        for i, reply in replies.items():
            try:
                calls[i] = scripts[i].send(reply)  # pyright: ignore[reportArgumentType]  # None starts it
            except StopIteration as stop:
                rows[i] = stop.value
        results = _run_surely(list(calls.values()), run_many) if calls else {}
        replies = {i: results[call.id] for i, call in calls.items()}
    return [row for row in rows if row is not None]


def _run_surely(calls: list[ToolCall], run_many: RunMany) -> dict[str, ToolResult]:
    """Results by call id; calls lost by the sandbox run again."""
    results: dict[str, ToolResult] = {}
    left = calls
    for _ in range(_MAX_RETRIES + 1):
        results |= {r.id: r.without_clock() for r in run_many(left) if not r.status.is_infrastructure}
        left = [call for call in left if call.id not in results]
        if not left:
            return results
    raise TeacherError(
        f"the sandbox lost {len(left)} of {len(calls)} calls {_MAX_RETRIES + 1} times in a row "
        f"(first: {left[0].id}); `python -m sandbox doctor` shows what is missing"
    )


def _value(result: ToolResult) -> str | None:
    r"""The integer on the last line that a successful call printed, or None.

    >>> _value(ToolResult(id="a", status=Status.OK, stdout="42\n"))
    '42'
    """
    lines = result.stdout.split()
    if result.status is not Status.OK or not lines or not re.fullmatch(r"-?\d+", lines[-1]):
        return None
    return lines[-1]
