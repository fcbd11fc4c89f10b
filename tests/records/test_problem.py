"""Problems and their parameters: a file gives back what was written, and refuses what no problem holds."""

from __future__ import annotations

import json

import pytest

from records.problem import Problem
from records.problem_params import FunctionEntry, Generated, Instruction, Instructions, Options, ProblemParams

ENTRY = FunctionEntry.of(
    {
        "id": "multi_turn_0", "category": "multi_turn_base", "function": [{"name": "ls", "parameters": {}}],
        "question": [[{"role": "user", "content": "List it."}], []], "missed_function": {"1": ["ls"]},
        "ground_truth": [["ls()"], []], "involved_classes": ["GorillaFileSystem"], "initial_config": {"root": {"a": 1}},
    }
)  # fmt: skip
PARAMS = [
    None,
    Generated(family="composition:lcm*gcd", values=(30, 12, -1)),
    Options(question="?", options=("x", "y"), order=(1, 0)),
    Instructions(items=(Instruction(id="punctuation:no_comma", kwargs={"n": [1, None]}),)),
    ENTRY,
]


@pytest.mark.parametrize("params", PARAMS, ids=lambda params: type(params).__name__)
def test_a_problem_survives_its_line(params: ProblemParams | None) -> None:
    problem = Problem(id="p", prompt="?", answer="4", family="f", level=2, split="dev", params=params)
    assert Problem.from_json(json.loads(json.dumps(problem.to_json()))) == problem
    assert len({problem, problem}) == 1


def test_the_line_of_a_procedural_problem_is_the_published_one() -> None:
    """Digests of data folders are over these bytes."""
    problem = Problem(id="p", prompt="?", answer="60", params=Generated(family="lcm", values=(30, 12)))
    assert problem.to_json() == {
        "id": "p", "prompt": "?", "answer": "60", "family": "", "level": 0, "split": "",
        "params": '{"family":"lcm","values":[30,12]}',
    }  # fmt: skip


def test_an_entry_holds_what_is_withheld_and_its_gold_as_text() -> None:
    assert ENTRY.withheld == {1: ["ls"]}
    assert (ENTRY.answer, ENTRY.services) == ('[["ls()"], []]', ["GorillaFileSystem"])


@pytest.mark.parametrize(
    "text", ["{}", "[1]", "{", "3", '{"family": "lcm"}', '{"options": {"question": "?"}}', '"x"']
)
def test_parameters_of_no_known_kind_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="hold no record of a known kind") as caught:
        Problem.from_json({"id": "p", "prompt": "?", "answer": "4", "params": text})
    assert "\n" not in str(caught.value)
