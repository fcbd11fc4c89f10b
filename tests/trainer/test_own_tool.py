"""A user's tool is one module: found by name, described to the model, run in the sandbox, counted like Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from config.resolve import resolve
from records.errors import ConfigError
from records.problem import Problem
from records.tool_call import Limits, Status, ToolCall
from records.trajectory import CallKind
from sandbox import EqualCalls, Sandbox
from tests.trainer.fakes import ANSWER, ScriptedEngine, a_loop
from trainer.rollout.chat import TURN_END, parse_user_call, rollout_chat
from trainer.rollout.task import Task
from trainer.rollout.tool import open_tool
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.rollout.user_tool import load_user_tool

MODULE = "tests.trainer.example_tool"


def call(arguments: str, name: str = "count_divisors") -> str:
    return f'x</reason><tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>{TURN_END}'


@pytest.fixture
def config():
    return resolve(overrides=[f"rollout.tool.name={MODULE}", "rollout.system=full"])


def test_the_prompt_holds_the_signature_of_the_users_tool(config) -> None:
    prompt = rollout_chat(config.rollout).prompt("How many?")
    assert '"name": "count_divisors"' in prompt
    assert '"required": ["n"]' in prompt
    assert "Python" not in prompt


@pytest.mark.slow
def test_calls_of_the_tool_run_in_the_sandbox_and_their_results_are_shown(config) -> None:
    """A good call, one that raises, one that hides code in an argument, one without arguments; then the answer."""
    turns = [call('{"n": 12}'), call('{"n": 0}'), call('{"n": "__import__(1)"}'), call("{}"), ANSWER]
    engine = ScriptedEngine(lambda session, turn: turns[turn])
    with open_tool(config.sandbox, config.runtime, own=config.rollout.tool.own) as tool:
        loop = a_loop(engine, tool)
        settings = replace(loop.settings, max_prompt=4000, max_response=8000, max_turns=8)
        episodes = ToolEpisodes(tool=tool, chat=rollout_chat(config.rollout))
        loop = replace(loop, episodes=episodes, settings=settings)
        ((trajectory, _),) = loop.run([Task(problem=Problem(id="p", prompt="?", answer="6"), sample=0)])
    results = [turn.result for turn in trajectory.turns if turn.result is not None]
    assert [result.status for result in results] == [Status.OK, *[Status.ERROR] * 3]
    assert results[0].stdout.strip() == "6"
    assert results[1].error is not None
    assert "n must be 1 or more" in results[1].error.message
    assert [turn.code for turn in trajectory.turns[:2]] == ['{"n": 12}', '{"n": 0}']


@pytest.mark.parametrize("is_fixed", [True, False])
def test_equal_calls_are_shared_only_with_equal_addresses(
    config, is_fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two runs of a pure program may print, or sort by, different addresses."""
    monkeypatch.setattr(Sandbox, "has_fixed_addresses", is_fixed)
    with open_tool(config.sandbox.model_copy(update={"preload": []}), config.runtime) as tool:
        assert isinstance(tool, EqualCalls) is is_fixed


@pytest.mark.parametrize("is_deterministic", [True, False])
def test_a_deterministic_run_records_calls_near_their_limit(
    config, is_deterministic: bool, tmp_path: Path
) -> None:
    paths = config.runtime.paths.model_copy(update={"results": tmp_path})
    update = {"paths": paths, "run": "here", "deterministic": is_deterministic}
    runtime = config.runtime.model_copy(update=update)
    with open_tool(config.sandbox.model_copy(update={"preload": []}), runtime) as tool:
        result = tool.run(ToolCall(id="a", code="while True: pass", limits=Limits(cpu_s=0.2, wall_s=20.0)))
    assert result.status is Status.TIMEOUT
    assert runtime.folder.near_limit_calls.exists() is is_deterministic


def test_arguments_that_are_not_an_object_are_the_models_error() -> None:
    parsed = parse_user_call(call("[12]"), "count_divisors")
    assert (parsed.call, "arguments (object)" in parsed.error) == (CallKind.PARSE_ERROR, True)
    assert parse_user_call(call('{"n": 1}', name="other"), "count_divisors").call is CallKind.UNKNOWN_TOOL


@pytest.mark.parametrize("module", ["no_such_tool", "json"])
def test_an_invalid_tool_module_is_refused_in_one_line(module: str) -> None:
    with pytest.raises(
        ConfigError, match=r"rollout\.tool\.name = .*NAME, DESCRIPTION, PARAMETERS and run"
    ) as refused:
        load_user_tool(module)
    assert "\n" not in str(refused.value)


def test_the_default_tool_is_python() -> None:
    rollout = resolve().rollout
    assert rollout_chat(rollout).tool_name == rollout.tool.name
