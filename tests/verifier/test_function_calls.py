"""BFCL: reading calls without evaluating them, the published check, conversations in the sandbox."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from records.problem import Problem
from records.problem_params import FunctionEntry
from records.trajectory import CallKind, Rollout, StopReason, Turn
from records.verdict import VerdictKind
from verifier.benchmarks import benchmark
from verifier.benchmarks.bfcl_v3 import grade_single_turn
from verifier.bfcl.calls import CATEGORIES, Call, NoCalls, check, decode, overall, overall_v4
from verifier.bfcl.entry import entry_of
from verifier.bfcl.episodes import (
    CALL_LIMITS,
    PRELOAD,
    Episode,
    Ran,
    RunCode,
    allowed_names,
    grade_episode,
    play,
    safe_calls,
)

pytest.importorskip("bfcl_eval", reason="BFCL's checker is an extra: see docs/verifier.md")

AREA = {
    "name": "shape.area",
    "description": "Area of a rectangle.",
    "parameters": {
        "type": "dict",
        "properties": {
            "width": {"type": "integer", "description": "Width."},
            "height": {"type": "integer", "description": "Height."},
            "unit": {"type": "string", "description": "Unit."},
        },
        "required": ["width", "height"],
    },
}
GOLD = [{"shape.area": {"width": [3], "height": [4], "unit": ["", "cm"]}}]


@pytest.mark.parametrize(
    "response",
    [
        "[shape.area(width=3, height=4)]",
        "shape.area(width=3, height=4, unit='cm')",
        '<tool_call>{"name": "shape.area", "arguments": {"width": 3, "height": 4}}</tool_call>',
        '<think>[shape.area(width=9)]</think>[{"name": "shape.area", "arguments": {"height": 4, "width": 3}}]',
        "```python\n[shape.area(width=3, height=4)]\n```",
    ],
)
def test_right_calls_are_right_in_both_modes(response: str) -> None:
    assert check("simple", [AREA], GOLD, response)[0]


@pytest.mark.parametrize(
    "response",
    [
        "[shape.area(width=4, height=3)]",
        "[shape.area(width=3)]",
        "[shape.area(width='3', height=4)]",
        "[shape.area(width=3, height=4), shape.area(width=3, height=4)]",
        "[area(width=3, height=4)]",
        "The area is 12.",
        "",
    ],
)
def test_wrong_calls_are_wrong(response: str) -> None:
    assert not check("simple", [AREA], GOLD, response)[0]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[route(from="Rome", to="Oslo")]', [{"route": {"from": "Rome", "to": "Oslo"}}]),
        ("[f(class=1, lambda=[1, [2, None]], in = {'a': [null, true]})]",
         [{"f": {"class": 1, "lambda": [1, [2, None]], "in": {"a": [None, True]}}}]),
        ('requests.get(Content-Type="json", User-Agent="x-y", a=1-2j)',
         [{"requests.get": {"Content-Type": "json", "User-Agent": "x-y", "a": 1 - 2j}}]),
        ("[travel.from(to='x'), import(is=1)]", [{"travel.from": {"to": "x"}}, {"import": {"is": 1}}]),
        ("[f(a='from=1, class=2', b=\"lambda(x)\")]", [{"f": {"a": "from=1, class=2", "b": "lambda(x)"}}]),
        ("[f(a=g(from='x'))]", [{"f": {"a": "g(from='x')"}}]),
        ("[f(a\u00f1o=2020, \u540d='\u00e9')]", [{"f": {"a\u00f1o": 2020, "\u540d": "\u00e9"}}]),
        ("[f(a=x[0])]", [{"f": {"a": "x[0]"}}]),
        ("[f(a=\'\'\'two\nlines\'\'\', b='broken\nline')]", [{"f": {"a": "two lines", "b": "broken line"}}]),
        ("[f(a=\'\'\'two\nlines\'\'\',\n  from=1)]", [{"f": {"a": "two\nlines", "from": 1}}]),
        ("[f(a=-1.5e3, b=(1, 2), c=[[1], [[2]]], d=True, e=None)]",
         [{"f": {"a": -1500.0, "b": (1, 2), "c": [[1], [[2]]], "d": True, "e": None}}]),
    ],
)  # fmt: skip
def test_names_that_python_refuses_and_nested_literals_are_read(text: str, calls: list[Call]) -> None:
    assert decode(text) == calls


@pytest.mark.parametrize(
    "text",
    ["[f(from)]", "[f(from=)]", "[from=1]", "[f(a=1 if from=2)]", "[f(=1)]", "f(from='a", "[f(a-=1)]",
     "[lambda: f(a=1)]", "[f(a=1) for class in x]",
     '{"a":' * 5000, f"<tool_call>{'[' * 5000}</tool_call>", "[f(a={[1]: 2})]", "[f(a={{}: 2})]", "[f(a={([1],): 2})]",
     "[" * 90_000, "[f(a=" + "-" * 90_000 + "1)]", "[f(a=" + "g." * 40_000 + "x)]"],
)  # fmt: skip
def test_text_without_a_list_of_calls_is_no_call(text: str) -> None:
    with pytest.raises(NoCalls):
        decode(text)


def test_a_withdrawn_name_of_a_conversation_stays_a_failing_call() -> None:
    assert safe_calls("[cd(from='x')]", frozenset({"cd"})) == ["_not_a_call_()"]


@pytest.mark.parametrize("value", ["{1, 2}", "b'x'", "1j", "...", "{(1, 2): 3}", "1e999"])
@pytest.mark.parametrize("category", ["java", "javascript", "simple", "parallel"])
def test_values_that_no_function_accepts_are_wrong(value: str, category: str) -> None:
    right, rule = check(category, [AREA], GOLD, f"[shape.area(width={value}, height=4)]")
    assert not right
    assert rule


def test_calls_that_break_the_published_check_are_unparsed() -> None:
    """The check looks up a function that the list does not have."""
    row = {"id": "p", "category": "simple", "function": [], "ground_truth": [{"f": {"a": [1]}}]}
    problem = Problem(id="p", prompt="", answer="", family="simple", params=FunctionEntry.of(row))
    turns = [Turn(text="[f(a=1)]", start=0, end=0, call=CallKind.NONE)]
    sample = Rollout(
        run="r", checkpoint="c", benchmark="b", problem="p", sample=0, stop=StopReason.ANSWER, turns=turns
    )
    (verdict,) = grade_single_turn(problem, sample).values()
    assert verdict.verdict is VerdictKind.UNPARSED
    assert "the published check breaks" in verdict.rule


def test_irrelevance_requires_no_call_and_relevance_a_call() -> None:
    silent, calling = "None of these helps.", "[shape.area(width=1, height=1)]"
    assert [check("irrelevance", [AREA], [], text)[0] for text in (silent, calling)] == [True, False]
    assert [check("live_relevance", [AREA], [], text)[0] for text in (silent, calling)] == [False, True]


@pytest.mark.parametrize(
    "hostile",
    [
        "[f(a=__import__('os').system('true'))]",
        "[f(a=(lambda: 1)())]",
        "[f(a=[x for x in (1,)])]",
        "[f(a=2**99999999)]",
        "[" + "f(a=" * 5000 + ")" * 5000 + "]",
        "f(*[1])",
        "import os",
    ],
)
def test_nothing_in_a_response_is_evaluated(hostile: str) -> None:
    try:
        calls = decode(hostile)
    except NoCalls:
        return
    assert all(isinstance(value, str) for call in calls for args in call.values() for value in args.values())


def test_calls_of_a_conversation_are_reduced_to_known_names_and_literals() -> None:
    names = frozenset({"cd", "ls"})
    assert safe_calls("[cd(folder='a'), ls()]", names) == ["cd(folder='a')", "ls()"]
    assert safe_calls("[exec('1')]", names) == ["_not_a_call_()"]
    assert safe_calls("[cd(folder=eval('1'))]", names) == ["_not_a_call_()"]
    assert safe_calls("[cd.__class__(folder='a')]", names) == ["_not_a_call_()"]
    assert safe_calls("nothing to do", names) == []
    assert safe_calls('<tool_call>{"name": "cd", "arguments": {"x y": 1}}</tool_call>', names) == [
        "_not_a_call_()"
    ]


def test_a_missing_category_counts_as_zero_and_live_is_weighted_by_counts() -> None:
    everything = dict.fromkeys(CATEGORIES, 1.0)
    counts = dict.fromkeys(CATEGORIES, 10)
    assert overall(everything, counts)["overall"] == pytest.approx(1.0)
    assert overall({**everything, "java": 0.0}, counts)["non_live"] == pytest.approx((2 / 3 + 4) / 5)
    heavy = {**counts, "live_simple": 950}
    assert overall({**everything, "live_simple": 0.0}, heavy)["live"] == pytest.approx(50 / 1000)
    assert overall({}, counts)["overall"] == 0.0
    assert overall_v4(everything, counts)["overall"] == pytest.approx(0.6)


@pytest.fixture(scope="module")
def problems(request: pytest.FixtureRequest) -> list[Problem]:
    shared: Path = request.getfixturevalue("shared_dir")
    return benchmark("bfcl_v3").load(shared / "data")


def test_all_17_categories_load(problems: list[Problem]) -> None:
    assert len(problems) == 4441
    assert {problem.family for problem in problems} == set(CATEGORIES)


def test_the_path_check_is_the_first_items_of_two_categories(
    problems: list[Problem], shared_dir: Path
) -> None:
    few = benchmark("bfcl_v3_path").load(shared_dir / "data")
    assert [problem.family for problem in few] == ["simple"] * 20 + ["irrelevance"] * 10
    assert set(few) <= set(problems)


@pytest.fixture(scope="module")
def run_code() -> Iterator[RunCode]:
    from records.tool_call import Limits, ToolCall
    from sandbox import Sandbox

    with Sandbox(workers=1, preload=PRELOAD) as sandbox:
        numbers = itertools.count()

        def run(code: str, stdin: str) -> Ran:
            call = ToolCall(id=str(next(numbers)), code=code, stdin=stdin, limits=Limits(**CALL_LIMITS))
            result = sandbox.run(call)
            fault = "" if result.status == "ok" else f"{result.status}: {result.error}"
            return Ran(result.stdout, fault, result.status.is_infrastructure)

        yield run


def _conversations(problems: list[Problem], count: int) -> list[Problem]:
    found = [problem for problem in problems if problem.family.startswith("multi_turn")]
    return found[:: len(found) // count]


@pytest.mark.slow
def test_gold_conversations_pass_in_the_sandbox_and_silence_fails(
    problems: list[Problem], run_code: RunCode
) -> None:
    for problem in _conversations(problems, 12):
        entry = entry_of(problem)
        gold, names = entry.gold, allowed_names(entry.functions)
        turns_of_calls = [[safe_calls(f"[{', '.join(turn)}]", names)] if turn else [] for turn in gold]
        assert grade_episode(problem, Episode(turns=turns_of_calls), run_code).verdict == "correct", (
            problem.id
        )
        assert grade_episode(problem, Episode(turns=[[] for _ in gold]), run_code).verdict == "wrong"


@pytest.mark.slow
def test_a_conversation_is_played_turn_by_turn_with_the_results_shown(
    problems: list[Problem], run_code: RunCode
) -> None:
    problem = next(problem for problem in problems if problem.family == "multi_turn_base")
    gold = [f"[{', '.join(turn)}]" for turn in entry_of(problem).gold]
    seen: list[str] = []

    def generate(messages: list[dict[str, str]], functions: Any) -> str:
        last = messages[-1]
        seen.append(last["role"])
        if last["role"] == "tool":
            return "Done."
        return gold[sum(message["role"] == "user" for message in messages) - 1]

    episode = play(problem, generate, run_code)
    assert grade_episode(problem, episode, run_code).verdict == "correct"
    assert seen == ["user", "tool"] * len(gold)


@pytest.mark.slow
def test_an_endless_conversation_is_ended(problems: list[Problem], run_code: RunCode) -> None:
    problem = next(problem for problem in problems if problem.family == "multi_turn_base")
    episode = play(problem, lambda messages, functions: "[pwd()]", run_code)
    assert episode.broken_off
    assert (
        len(episode.turns[-1]) == 21
    )  # the published runner lets the one after its 20 steps run, then breaks off
    assert grade_episode(problem, episode, run_code).verdict == "wrong"
