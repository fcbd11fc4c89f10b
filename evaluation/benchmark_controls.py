"""`run_controls`: controls of a benchmark without a model: an oracle that answers with the gold, and a random answerer.

An oracle below 100% reveals wrong golds or graders; a random answerer above chance reveals a grader that gives points
away. Both use the same extraction and grading as a model's text.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from records.verdict import VerdictKind
from verifier.benchmarks import Benchmark, PromptKind, Scoring
from verifier.bfcl.calls import Kind, gold_calls, kind_of
from verifier.bfcl.entry import entry_of
from verifier.graders.policy import GraderName

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Score of one control on one benchmark."""

    benchmark: str
    answerer: str
    """oracle or random."""
    num_questions: int
    num_correct: int
    rejected: dict[str, str] = field(default_factory=dict)
    """Oracle only: problem -> the reason why its own gold was not accepted."""
    golds: dict[str, int] = field(default_factory=dict)
    """Multiple choice only: how often each letter is the gold."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def oracle_text(benchmark: Benchmark, problem: Problem) -> str:
    """Return a response with the gold, in the form that the benchmark requires."""
    if benchmark.scoring is Scoring.FUNCTION_CALLS:
        return _oracle_calls(problem)
    if benchmark.prompt is PromptKind.CHOICE:
        return f"<reason>so it is</reason>Answer: {problem.answer}"
    return f"<reason>so it is</reason><answer>\\boxed{{{problem.answer}}}</answer>"


def _oracle_calls(problem: Problem) -> str:
    entry, kind = entry_of(problem), kind_of(problem.family)
    if kind is Kind.IRRELEVANCE:
        return "None of these functions fits."
    if kind is Kind.RELEVANCE:
        name = entry.functions[0]["name"]
        return f'<tool_call>{{"name": {json.dumps(name)}, "arguments": {{}}}}</tool_call>'
    calls = [(name, args) for call in gold_calls(entry.gold) for name, args in call.items()]
    return "".join(
        f"<tool_call>{json.dumps({'name': name, 'arguments': args})}</tool_call>" for name, args in calls
    )


def random_text(benchmark: Benchmark, problem: Problem, golds: Sequence[str], draw: random.Random) -> str:
    """Return a response in the right form that ignores the question: a letter, an integer to 999, or another gold."""
    if benchmark.prompt is PromptKind.CHOICE:
        return f"Answer: {draw.choice('ABCD')}"
    answer = str(draw.randrange(1000)) if benchmark.policy.integer_only else draw.choice(golds)
    del problem
    return f"<answer>\\boxed{{{answer}}}</answer>"


def run_controls(benchmark: Benchmark, problems: Sequence[Problem], *, seed: int = 0) -> list[Control]:
    """Run the oracle and, where chance is defined, the random answerer; conversations and IFEval have neither."""
    if benchmark.scoring is Scoring.INSTRUCTIONS:
        return []
    if benchmark.scoring is Scoring.FUNCTION_CALLS:
        problems = [problem for problem in problems if kind_of(problem.family) is not Kind.MULTI_TURN]
    benchmark = replace(benchmark, policy=replace(benchmark.policy, graders=(GraderName.STRICT,)))
    choice = benchmark.prompt is PromptKind.CHOICE
    golds = dict(Counter(problem.answer for problem in problems)) if choice else {}
    rejected: dict[str, str] = {}
    for problem in problems:
        verdict = benchmark.grade(problem, _as_sample(benchmark, problem, oracle_text(benchmark, problem)))[
            "strict"
        ]
        if verdict.verdict is not VerdictKind.CORRECT:
            rejected[problem.id] = f"{verdict.verdict.value}: {verdict.rule}"
    controls = [
        Control(
            benchmark=benchmark.name,
            answerer="oracle",
            num_questions=len(problems),
            num_correct=len(problems) - len(rejected),
            rejected=rejected,
            golds=golds,
        )
    ]
    if benchmark.scoring is Scoring.ANSWER:
        controls.append(_random(benchmark, problems, golds, seed))
    return controls


def _random(benchmark: Benchmark, problems: Sequence[Problem], golds: dict[str, int], seed: int) -> Control:
    draw = random.Random(f"{benchmark.name}:{seed}")
    pool = [problem.answer for problem in problems]
    right = 0
    for problem in problems:
        sample = _as_sample(benchmark, problem, random_text(benchmark, problem, pool, draw))
        right += benchmark.grade(problem, sample)["strict"].verdict is VerdictKind.CORRECT
    return Control(
        benchmark=benchmark.name,
        answerer="random",
        num_questions=len(problems),
        num_correct=right,
        golds=golds,
    )


def _as_sample(benchmark: Benchmark, problem: Problem, text: str) -> Rollout:
    from records.trajectory import CallKind, Rollout, StopReason, Turn

    return Rollout(
        run="control",
        checkpoint="control",
        benchmark=benchmark.name,
        problem=problem.id,
        sample=0,
        turns=[Turn(text=text, start=0, end=0, call=CallKind.NONE)],
        stop=StopReason.ANSWER,
    )
