"""`shown`: BFCL's functions as the model sees them, as tools (fc) or listed in the published prompt."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from records.problem_params import FunctionEntry

_FORMAT = "ret_fmt=python&tool_call_tag=False&func_doc_fmt=json&prompt_fmt=plaintext&style=classic"
"""The default of the published prompt, by its own name."""


class Mode(StrEnum):
    """How the prompt shows functions and the model writes calls."""

    FC = "fc"
    """As tools of the chat; calls are `<tool_call>` JSON."""
    PROMPT = "prompt"
    """In the published system prompt; calls are a Python list."""


Shown = tuple[list[dict[str, str]], list[dict[str, Any]]]
"""Messages, and the functions that the chat itself declares."""


def shown(
    entry: FunctionEntry,
    messages: Sequence[Mapping[str, str]],
    functions: Sequence[Mapping[str, Any]],
    mode: Mode,
) -> Shown:
    """Return messages and functions of the first step of an entry.

    Args:
        entry: its id names the language of the functions.
        messages: of the conversation so far.
        functions: what may be called now.
        mode: fc or prompt.

    Raises:
        DataUnavailable: the checker, which holds the prompt and the language notes, is not installed.
    """
    from verifier.bfcl.calls import published_checker

    published_checker()
    from bfcl_eval.utils import add_language_specific_hint_to_function_doc

    row = {"id": entry.id, "function": copy.deepcopy([dict(function) for function in functions])}
    (noted,) = add_language_specific_hint_to_function_doc([row])
    sent = [dict(message) for message in messages]
    if mode is Mode.FC:
        return sent, [as_tool(function) for function in noted["function"]]
    from bfcl_eval.model_handler.utils import formulate_system_prompt

    text = formulate_system_prompt(_FORMAT, noted["function"])
    if sent and sent[0]["role"] == "system":
        text = f"{text}\n\n{sent.pop(0)['content']}"
    return [{"role": "system", "content": text}, *sent], []


def as_tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function with its parameters as a JSON schema; names keep their dots, as the checker requires.

    >>> as_tool({"name": "m.f", "parameters": {"type": "dict", "properties": {"a": {"type": "float"}}}})
    {'name': 'm.f', 'parameters': {'type': 'object', 'properties': {'a': {'type': 'number'}}}}
    """
    return {**function, "parameters": _schema(function["parameters"])}


def _schema(part: Any) -> Any:
    if isinstance(part, list):
        return [_schema(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    return {
        key: _TYPES.get(value, "string") if key == "type" and isinstance(value, str) else _schema(value)
        for key, value in part.items()
    }


_TYPES = {name: name for name in ("integer", "number", "string", "boolean", "array", "object", "null")} | {
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "HashMap": "object",
    "Hashtable": "object",
    "list": "array",
    "tuple": "array",
    "ArrayList": "array",
    "Array": "array",
    "Queue": "array",
    "Stack": "array",
    "byte": "integer",
    "short": "integer",
    "long": "integer",
    "Bigint": "integer",
}
"""Types of BFCL's function documents as JSON schema types; every other is a string."""
