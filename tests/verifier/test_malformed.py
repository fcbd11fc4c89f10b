"""Malformed responses, mutated from real ones by seed: every grader ends, in time and with a verdict."""

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from records.problem import Problem
from records.problem_params import FunctionEntry, Instruction
from records.trajectory import CallKind, Rollout, StopReason, Turn
from records.verdict import VerdictKind
from tests.verifier.cases import CASES, OPEN, PROMPT, STATED
from verifier.benchmarks.bfcl_v3 import grade_single_turn
from verifier.bfcl.episodes import safe_calls
from verifier.graders.grade import grade_answer
from verifier.graders.policy import GradePolicy
from verifier.ifeval.checks import grade_response

pytest.importorskip(
    "if_verifiable", reason="the checks of IFEval are an extra: pip install if-verifiable==0.1.2"
)
pytest.importorskip("bfcl_eval", reason="BFCL's checker is an extra: see docs/verifier.md")

NUM_EACH = 100
LIMIT_S = 2.0
PIECES = (
    "<tool_call>", "</tool_call>", "<think>", "</think>", "<answer>", "\\boxed{", "}", "{", "[", "]", "(", "'", '"',
    "\\", "\n", "\x00", "\ud800", "\ufdfa", "\u202e", "\U0001d402", "<<", ">>", "*", "Answer: ", "```", "$", " ",
    "from=", "class=", "-", "1e999", "9" * 5000, "None", "nan", "lambda: ", "f(", "a, ", "A. ", "\u00e9", "<|im_end|>",
    "&", "f'{", "#",
)  # fmt: skip
FUNCTIONS = [
    {"name": name, "description": "", "parameters": {"type": "dict", "required": ["a"], "properties": {
        "a": {"type": kind, "items": {"type": "string"}, "description": "", "properties": {}}}}}
    for name, kind in (("f", "string"), ("g.h", "array"), ("k", "dict"), ("m", "integer"), ("t", "tuple"))
]  # fmt: skip
GOLDS = [
    [{"f": {"a": ["x"]}}], [{"g.h": {"a": [["x", "y"]]}}], [{"k": {"a": [{"b": ["c"]}]}}],
    [{"m": {"a": [1]}}], [{"t": {"a": [[1, 2]]}}],
]  # fmt: skip
CALLS = (
    "[f(a='x')]", "[g.h(a=['x', 'y'])]", "[k(a={'b': 'c'})]", "[m(a=1)]", "[t(a=(1, 2))]",
    '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>', '[{"k": {"a": {"b": "c"}}}]',
)  # fmt: skip


def mutated(text: str, draw: random.Random) -> str:
    """One to four changes: cut, doubled, a piece put in, a stretch repeated up to 200,000 characters, order changed."""
    for _ in range(draw.randint(1, 4)):
        start, end = sorted((draw.randint(0, len(text)), draw.randint(0, len(text))))
        kind = draw.choice(("cut", "keep", "insert", "insert", "double", "repeat", "shuffle"))
        if kind == "cut":
            text = text[:start] + text[end:]
        elif kind == "keep":
            text = text[start:end]
        elif kind == "insert":
            text = text[:start] + draw.choice(PIECES) * draw.choice((1, 1, 2, 50)) + text[start:]
        elif kind == "double":
            text = (text + text)[:400_000]
        elif kind == "repeat":
            piece = draw.choice((text[start:end], draw.choice(PIECES))) or "x"
            text = text[:start] + piece * (draw.choice((300, 3_000, 200_000)) // len(piece)) + text[start:]
        else:
            pieces = list(text[start:end][:2000])
            draw.shuffle(pieces)
            text = text[:start] + "".join(pieces) + text[end:]
    return text


def choice(draw: random.Random) -> VerdictKind:
    letter = draw.choice("ABCD")
    text = mutated(draw.choice([*STATED[letter], *OPEN]), draw)
    return grade_answer(letter, text, GradePolicy(choice=True)).verdict


def instructions(draw: random.Random) -> VerdictKind:
    asked = draw.sample(CASES, 3)
    text = mutated(" ".join(draw.choice(case[2:]) for case in asked) * draw.choice((1, 1, 20)), draw)
    found = grade_response(PROMPT, [Instruction(id=id, kwargs=kwargs) for id, kwargs, _, _ in asked], text)
    return found["strict"].verdict


def calls(draw: random.Random) -> VerdictKind:
    at = draw.randrange(len(GOLDS))
    text = mutated(draw.choice(CALLS), draw)
    safe_calls(text, frozenset({"f", "k"}))
    category = draw.choice(("simple", "java", "parallel", "live_multiple", "irrelevance"))
    row = {"id": "p", "category": category, "function": FUNCTIONS, "ground_truth": GOLDS[at]}
    problem = Problem(id="p", prompt="", answer="", family=category, params=FunctionEntry.of(row))
    turns = [Turn(text=text, start=0, end=0, call=CallKind.NONE)]
    sample = Rollout(
        run="r", checkpoint="c", benchmark="b", problem="p", sample=0, stop=StopReason.ANSWER, turns=turns
    )
    return grade_single_turn(problem, sample)["strict"].verdict


@pytest.mark.slow
@pytest.mark.parametrize("grade", [choice, instructions, calls])
def test_malformed_responses_end_in_time_with_a_verdict(
    grade: Callable[[random.Random], VerdictKind],
) -> None:
    grade_response(
        PROMPT, [Instruction(id=CASES[0][0], kwargs=CASES[0][1])], "x " * 2000
    )  # starts the worker
    calls(random.Random("warm"))  # imports the check
    found: Counter[VerdictKind] = Counter()
    for number in range(NUM_EACH):
        start = time.process_time()
        found[grade(random.Random(f"{grade.__name__}:{number}"))] += 1
        assert time.process_time() - start < LIMIT_S, number
    assert VerdictKind.INFRA_FAILED not in found
    assert len(found) > 1
