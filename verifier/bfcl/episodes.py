"""`Conversation` and `grade_episode`: BFCL's multi-turn entries, whose calls change simulated services.

The published backend evaluates call strings, so it runs only inside the sandbox. Before that, every call is reduced
to `name(literals)` with a name that the entry's services offer. Any other text becomes a call that fails, as the
original would have.
"""

from __future__ import annotations

import ast
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from records.problem_params import FunctionEntry
from records.verdict import Verdict, VerdictKind
from verifier.bfcl.call_names import true_name
from verifier.bfcl.calls import NoCalls, call_nodes, decode, name_of, unfenced
from verifier.bfcl.entry import entry_of
from verifier.turn import read_turn

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout

MAX_STEPS = 20
"""Steps per user turn before the episode ends, as in the published runner."""
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


@dataclass(frozen=True, slots=True)
class Ran:
    """Outcome of one run of the backend."""

    stdout: str
    fault: str = ""
    """Description of the failure; '' for none."""
    is_infrastructure: bool = True
    """The infrastructure failed (a lost worker), not the calls (a limit passed)."""


RunCode = Callable[[str, str], Ran]
"""(code, standard input) -> outcome, run in a sandbox started with PRELOAD.

The caller provides it, because this package does not import the sandbox. CALL_LIMITS holds the limits of a call.
"""
_PREFIX = "bfcl_eval.eval_checker.multi_turn_eval"
PRELOAD = (f"{_PREFIX}.multi_turn_checker", *(f"{_PREFIX}.func_source_code.{name}" for name in BACKENDS))
"""For `Sandbox(preload=PRELOAD)`: imported before any call, so that calls read no files."""

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
"""Keyword arguments of `records.tool_call.Limits` for one call of the backend."""


class BackendFailed(RuntimeError):
    """The sandbox could not run the backend: a failure of the infrastructure, not a score."""


class CallsTooHeavy(RuntimeError):
    """The calls exceeded the limits of the backend: the model's fault, hence wrong."""


@dataclass(slots=True, kw_only=True)
class Episode:
    """The calls of a model in one conversation."""

    turns: list[list[list[str]]] = field(default_factory=list)
    """Per user turn, per step: call strings as written, already reduced to literals."""
    broken_off: bool = False
    """A turn exceeded MAX_STEPS, or the sample ended before the conversation did."""


def allowed_names(functions: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the functions that an entry's services offer."""
    return frozenset(str(function["name"]).rsplit(".", 1)[-1] for function in functions)


def safe_calls(response: str, names: frozenset[str]) -> list[str]:
    """Return the call strings of one step; [] when the response holds none.

    >>> safe_calls("[cd(folder='x'), open('/etc/passwd')]", frozenset({"cd"}))
    ["cd(folder='x')", '_not_a_call_()']
    """
    try:
        text = unfenced(response)
        if read_turn(response).calls or text.startswith(("{", "[{")):
            return [_rendered(name, args, names) for call in decode(response) for name, args in call.items()]
        return [_reduced(node, names) for node in call_nodes(text)]
    except NoCalls:
        return []


def _rendered(name: str, args: Mapping[str, Any], names: frozenset[str]) -> str:
    short = name.rsplit(".", 1)[-1]
    if short not in names or not all(key.isidentifier() for key in args):
        return _BROKEN_CALL
    return f"{short}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def _reduced(call: ast.Call, names: frozenset[str]) -> str:
    """Return the call if it is a known name with literals, nested known calls included; else a call that fails."""
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
        named = call.keywords[at - len(call.args)].arg if at >= len(call.args) else None
        if named and true_name(named) != named:
            return _BROKEN_CALL  # no Python function has such an argument
        parts.append(f"{named}={text}" if named else text)
    return f"{short}({', '.join(parts)})"


def _literal_text(node: ast.expr) -> str:
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return _BROKEN_CALL


class Conversation:
    """One entry in progress: messages to the model, its calls and their results.

    Args:
        problem: a multi-turn problem; `params` holds the entry with its functions.
    """

    def __init__(self, problem: Problem) -> None:
        self.entry = entry_of(problem)
        self.episode = Episode()
        self.num_turns = len(self.entry.user_turns)
        self._next_turn()

    @property
    def functions(self) -> list[Mapping[str, Any]]:
        """Return the functions that are available in this user turn."""
        now = len(self.episode.turns) - 1
        hidden = {name for later, held in self.entry.withheld.items() if later > now for name in held}
        return [function for function in self.entry.functions if function["name"] not in hidden]

    def add_turn(self, text: str) -> bool:
        """Add one step of the assistant; return whether the conversation continues."""
        calls = safe_calls(text, allowed_names(self.functions))
        if calls:
            self.episode.turns[-1].append(calls)
            self.episode.broken_off = len(self.episode.turns[-1]) > MAX_STEPS
            self._called = True
            return not self.episode.broken_off
        if len(self.episode.turns) == self.num_turns:
            self.is_over = True
            return False
        self._next_turn()
        return True

    def next_messages(self, run_code: RunCode) -> list[dict[str, str]]:
        """Return the messages that follow: results of the last calls, or the user's next turn.

        Raises:
            BackendFailed: the infrastructure lost the calls.
        """
        if not self._called:
            return self.messages
        done = [step for past in self.episode.turns for step in past]
        try:
            results = execute(self.entry, done, run_code)
        except CallsTooHeavy as error:
            results = [f"Error: {error}"]
        return [{"role": "tool", "content": result} for result in results]

    def _next_turn(self) -> None:
        now = len(self.episode.turns)
        self.episode.turns.append([])
        self._called, self.is_over = False, False
        self.messages = list(self.entry.user_turns[now])
        if now in self.entry.withheld:
            added = [f for f in self.entry.functions if f["name"] in self.entry.withheld[now]]
            text = f"These functions can be called from now on: {json.dumps(added)}"
            self.messages = [{"role": "user", "content": text}]


def episode_of(problem: Problem, texts: Sequence[str]) -> Episode:
    """Rebuild the episode from the assistant's steps of a stored sample, without running calls.

    A truncated sample leaves turns that were never reached, so it cannot be correct.
    """
    conversation = Conversation(problem)
    for text in texts:
        if not conversation.add_turn(text):
            break
    if not conversation.is_over:
        conversation.episode.broken_off = True
    return conversation.episode


def play(
    problem: Problem,
    generate: Callable[[list[dict[str, str]], Sequence[Mapping[str, Any]]], str],
    run_code: RunCode,
) -> Episode:
    """Hold the conversation of one entry.

    Args:
        problem: a multi-turn problem.
        generate: takes messages and functions, returns the text of one assistant step.
        run_code: see `RunCode`.
    """
    conversation = Conversation(problem)
    messages = list(conversation.messages)
    while True:
        text = generate(messages, conversation.functions)
        if not conversation.add_turn(text):
            return conversation.episode
        messages += [{"role": "assistant", "content": text}, *conversation.next_messages(run_code)]


def execute(entry: FunctionEntry, steps: Sequence[Sequence[str]], run_code: RunCode) -> list[str]:
    """Return the results of the last of `steps`. The earlier ones run again first, so no state is kept between calls.

    Raises:
        BackendFailed: the infrastructure lost the calls.
        CallsTooHeavy: the calls passed a limit.
    """
    return _ask({"do": "execute", "entry": entry.backend_record, "calls": list(steps)}, run_code)["results"]


def grade_conversation(problem: Problem, rollout: Rollout, run_code: RunCode) -> dict[str, Verdict]:
    """Grade a stored sample of a conversation; see `grade_episode`."""
    if not rollout.stop.is_models:
        return {"strict": Verdict(id=problem.id, verdict=VerdictKind.INFRA_FAILED, rule=rollout.stop.value)}
    episode = episode_of(problem, [turn.text for turn in rollout.turns])
    return {"strict": grade_episode(problem, episode, run_code)}


def grade_episode(problem: Problem, episode: Episode, run_code: RunCode) -> Verdict:
    """Compare state and results after each turn with those of the gold calls; one failed turn fails the entry."""
    entry = entry_of(problem)
    if episode.broken_off or len(episode.turns) != len(entry.gold):
        return Verdict(id=problem.id, verdict=VerdictKind.WRONG, rule="broken off: steps or tokens ran out")
    request = {
        "do": "check",
        "entry": entry.backend_record,
        "calls": episode.turns,
        "gold": entry.gold,
        "category": entry.category,
    }
    try:
        answer = _ask(request, run_code)
    except BackendFailed as error:
        return Verdict(id=problem.id, verdict=VerdictKind.INFRA_FAILED, rule=str(error))
    except CallsTooHeavy as error:
        return Verdict(id=problem.id, verdict=VerdictKind.WRONG, rule=str(error))
    kind = VerdictKind.CORRECT if answer["valid"] is True else VerdictKind.WRONG
    return Verdict(id=problem.id, verdict=kind, rule=answer["reason"] or "state and results match")


def _ask(request: dict[str, Any], run_code: RunCode) -> dict[str, Any]:
    mark = secrets.token_hex(8)
    ran = run_code(_CODE, json.dumps({**request, "mark": mark}))
    lines = [line for line in ran.stdout.splitlines() if line.startswith(mark)]
    if len(lines) != 1 and ran.fault and not ran.is_infrastructure:
        raise CallsTooHeavy(f"the calls went past the limits of the services: {ran.fault}"[:300])
    if len(lines) != 1:
        raise BackendFailed(f"backend: {ran.fault or 'no answer'}"[:300])
    return json.loads(lines[0][len(mark) :])
