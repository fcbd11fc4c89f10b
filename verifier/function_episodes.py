"""BFCL, multi-turn: conversations whose calls change the state of simulated services.

The published backend evaluates call strings, so it runs inside the sandbox and nowhere else. Before that every call is
reduced to `name(literals)` with a name that the entry's services offer: text that is anything else becomes a call that
fails, as it would have.
"""

from __future__ import annotations

import ast
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from verifier.function_calls import NoCalls, call_nodes, decode, name_of
from verifier.verdict import Verdict, VerdictKind

if TYPE_CHECKING:
    from trainer.types import Problem

MAX_STEPS = 20
"""Steps per user turn before the episode is broken off, as in the published runner."""
BACKENDS = (
    "gorilla_file_system",
    "math_api",
    "message_api",
    "posting_api",
    "ticket_api",
    "trading_bot",
    "travel_booking",
    "vehicle_control",
)
RunCode = Callable[[str, str], tuple[str, str]]
"""(code, standard input) -> (standard output, what went wrong or ''), run in a sandbox started with PRELOAD.

Injected, because this package does not import the sandbox: CALL_LIMITS says what a call needs.
"""
_PREFIX = "bfcl_eval.eval_checker.multi_turn_eval"
PRELOAD = (f"{_PREFIX}.multi_turn_checker", *(f"{_PREFIX}.func_source_code.{name}" for name in BACKENDS))
"""For `Sandbox(preload=PRELOAD)`: imported before any call, so that calls need no files."""

_CODE = """
import json, sys
request = json.loads(sys.stdin.read())
entry = request["entry"]
if request["do"] == "check":
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker as published
    result = published.multi_turn_checker(request["calls"], request["gold"], entry, request["category"], "m")
    if result["valid"]:
        result = published.multi_turn_irrelevance_checker(request["calls"], request["gold"])
    answer = {"valid": result["valid"], "reason": str(result.get("error_type", ""))}
else:
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
    for calls in request["calls"]:
        found, _ = execute_multi_turn_func_call(
            calls, entry["initial_config"], entry["involved_classes"], "m", entry["id"],
            long_context="long_context" in entry["id"],
        )
    answer = {"results": found}
print(request["mark"] + json.dumps(answer))
"""
_BROKEN_CALL = "_not_a_call_()"
CALL_LIMITS = {"cpu_s": 20.0, "wall_s": 200.0, "memory_bytes": 1 << 30, "output_bytes": 1 << 20}
"""Keyword arguments of `sandbox.records.Limits` for one call of the backend."""


class BackendFailed(RuntimeError):
    """The sandbox could not run the backend: our failure, never a score."""


@dataclass(slots=True, kw_only=True)
class Episode:
    """What a model did in one conversation."""

    turns: list[list[list[str]]] = field(default_factory=list)
    """Per user turn, per step: call strings as written, already reduced to literals."""
    broken_off: bool = False
    """A turn went past MAX_STEPS."""


def allowed_names(functions: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Names of the functions that an entry's services offer."""
    return frozenset(str(function["name"]).rsplit(".", 1)[-1] for function in functions)


def safe_calls(response: str, names: frozenset[str]) -> list[str]:
    """Call strings of one step; [] when the response holds none.

    >>> safe_calls("[cd(folder='x'), open('/etc/passwd')]", frozenset({"cd"}))
    ["cd(folder='x')", '_not_a_call_()']
    """
    try:
        if "<tool_call>" in response or response.lstrip().startswith(("{", "[{")):
            return [_rendered(name, args, names) for call in decode(response) for name, args in call.items()]
        from verifier.extract import without_thinking

        return [_reduced(node, names) for node in call_nodes(without_thinking(response).strip().strip("`"))]
    except NoCalls:
        return []


def _rendered(name: str, args: Mapping[str, Any], names: frozenset[str]) -> str:
    short = name.rsplit(".", 1)[-1]
    if short not in names or not all(key.isidentifier() for key in args):
        return _BROKEN_CALL
    return f"{short}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def _reduced(call: ast.Call, names: frozenset[str]) -> str:
    """The call if it is a known name with literals, nested known calls included; else a call that fails."""
    try:
        short = name_of(call).rsplit(".", 1)[-1]
    except NoCalls:
        return _BROKEN_CALL
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if short not in names or any(keyword.arg is None for keyword in call.keywords):
        return _BROKEN_CALL
    parts: list[str] = []
    for at, value in enumerate(values):
        text = _reduced(value, names) if isinstance(value, ast.Call) else _literal_text(value)
        if text == _BROKEN_CALL:
            return _BROKEN_CALL
        keyword = call.keywords[at - len(call.args)].arg if at >= len(call.args) else None
        parts.append(f"{keyword}={text}" if keyword else text)
    return f"{short}({', '.join(parts)})"


def _literal_text(node: ast.expr) -> str:
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return _BROKEN_CALL


def play(
    problem: Problem,
    generate: Callable[[list[dict[str, str]], Sequence[Mapping[str, Any]]], str],
    run_code: RunCode,
) -> Episode:
    """Hold the conversation of one entry.

    Args:
        problem: a multi-turn problem; `params` holds the entry with its functions.
        generate: messages and functions in, the text of one assistant step out.
        run_code: see `RunCode`.
    """
    entry = json.loads(problem.params)
    functions = list(entry["function"])
    missing = {int(turn): set(names) for turn, names in entry.get("missed_function", {}).items()}
    episode, messages = Episode(), []
    for number, turn in enumerate(entry["question"]):
        hidden = {name for later, held in missing.items() if later > number for name in held}
        shown = [function for function in functions if function["name"] not in hidden]
        if number in missing:
            added = [function for function in functions if function["name"] in missing[number]]
            turn = [
                {
                    "role": "user",
                    "content": f"I have updated some more functions you can choose from: {json.dumps(added)}",
                }
            ]
        messages += turn
        steps: list[list[str]] = []
        episode.turns.append(steps)
        while True:
            text = generate(messages, shown)
            messages.append({"role": "assistant", "content": text})
            calls = safe_calls(text, allowed_names(shown))
            if not calls:
                break
            steps.append(calls)
            done = [step for past in episode.turns for step in past]
            messages.append({"role": "tool", "content": json.dumps(execute(entry, done, run_code))})
            if len(steps) >= MAX_STEPS:
                episode.broken_off = True
                return episode
    return episode


def execute(entry: Mapping[str, Any], steps: Sequence[Sequence[str]], run_code: RunCode) -> list[str]:
    """Results of the last of `steps`; the earlier ones are run again first, so nothing is kept between calls."""
    return _ask({"do": "execute", "entry": _bare(entry), "calls": list(steps)}, run_code)["results"]


def grade_episode(problem: Problem, episode: Episode, run_code: RunCode) -> Verdict:
    """State and results after each turn must match those of the gold calls; one failed turn fails the entry."""
    entry, gold = json.loads(problem.params), json.loads(problem.answer)
    if episode.broken_off or len(episode.turns) != len(gold):
        return Verdict(id=problem.id, verdict=VerdictKind.WRONG, rule="broken off: too many steps")
    request = {
        "do": "check",
        "entry": _bare(entry),
        "calls": episode.turns,
        "gold": gold,
        "category": problem.family,
    }
    try:
        answer = _ask(request, run_code)
    except BackendFailed as error:
        return Verdict(id=problem.id, verdict=VerdictKind.INFRA_FAILED, rule=str(error))
    kind = VerdictKind.CORRECT if answer["valid"] else VerdictKind.WRONG
    return Verdict(id=problem.id, verdict=kind, rule=answer["reason"] or "state and results match")


def _bare(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": entry["id"],
        "initial_config": entry.get("initial_config", {}),
        "involved_classes": entry["involved_classes"],
    }


def _ask(request: dict[str, Any], run_code: RunCode) -> dict[str, Any]:
    mark = secrets.token_hex(8)
    stdout, fault = run_code(_CODE, json.dumps({**request, "mark": mark}))
    lines = [line for line in stdout.splitlines() if line.startswith(mark)]
    if len(lines) != 1:
        raise BackendFailed(f"backend: {fault or 'no answer'}"[:300])
    return json.loads(lines[0][len(mark) :])
