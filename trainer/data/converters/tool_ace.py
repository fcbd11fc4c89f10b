r"""ToolACE (Team-ACE/ToolACE): columns system and conversations; calls are written `[name(key=value), ...]`.

A name may hold blanks, dots and slashes (`Market Trends API`). Values are Python literals, read by `ast` and never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainer.data.conversations.conversation import (
    Call,
    Conversation,
    Converter,
    Message,
    conversation,
    field_of,
    functions_of,
)
from trainer.data.sources import RowFault

_NAME = re.compile(r"\s*([^\s(),=\[\]'\"][^(),=\[\]'\"]*?)\s*\(")
_LISTED = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row. The system text keeps its rules; the signatures in it become functions."""
    system = field_of(record, "system", str)
    listed = _LISTED.search(system)
    functions = functions_of(listed[0]) if listed else ()
    messages: list[Message] = []
    for turn in field_of(record, "conversations", list):
        if not isinstance(turn, Mapping) or not isinstance(turn.get("value"), str):
            raise RowFault("wrong_type", "a message without from and value")
        speaker, value = turn.get("from"), turn["value"]
        if speaker == "assistant" and value.lstrip().startswith("[") and _NAME.match(value.lstrip()[1:]):
            messages.append(Message(role="assistant", text="", calls=tuple(calls_of(value.strip()))))
        elif speaker in ("user", "assistant", "tool"):
            messages.append(Message(role=speaker, text=value))
        else:
            raise RowFault("unknown_role", str(speaker)[:40])
    return conversation(id, source, messages, functions)


def calls_of(text: str) -> Iterator[Call]:
    """Calls of a bracketed list.

    >>> [call.text() for call in calls_of('[Market Trends API(kind="a)b", n=3), now()]')]
    ['{"name": "Market Trends API", "arguments": {"kind": "a)b", "n": 3}}', '{"name": "now", "arguments": {}}']

    Raises RowFault: bad_call.
    """
    if not text.endswith("]"):
        raise RowFault("bad_call", f"a list without its end: {text[:60]!r}")
    at, end = 1, len(text) - 1
    while at < end:
        found = _NAME.match(text, at)
        if found is None:
            raise RowFault("bad_call", text[at : at + 60])
        close = _closing(text, found.end(), end)
        yield Call.of(found[1], _arguments(text[found.end() : close]))
        at = close + 1
        rest = text[at:end].lstrip()
        if rest and not rest.startswith(","):
            raise RowFault("bad_call", rest[:60])
        at = text.find(",", at, end) + 1 if rest else end


def _closing(text: str, start: int, end: int) -> int:
    """Place of the bracket that closes the arguments; brackets inside strings do not count."""
    depth, quote, at = 1, "", start
    while at < end:
        sign = text[at]
        if quote:
            if sign == "\\":
                at += 1
            elif sign == quote:
                quote = ""
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise RowFault("bad_call", f"arguments without their end: {text[start : start + 60]!r}")


def _arguments(text: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RowFault("bad_call", f"{error}: {text[:60]!r}") from None
    if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
        raise RowFault("bad_call", f"arguments without names: {text[:60]!r}")
    return {str(word.arg): _value(word.value) for word in call.keywords}


def _value(node: ast.expr) -> Any:
    """A literal; true, false and null are read as JSON has them."""
    match node:
        case ast.Name(id=name) if name in _WORDS:
            return _WORDS[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True) if key}
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError) as error:
        raise RowFault("bad_call", str(error)[:80]) from None
    if not isinstance(value, str | int | float | bool | None):
        raise RowFault("bad_call", f"a value of type {type(value).__name__}")
    return value


CONVERTER = Converter(name="tool_ace", convert=convert)
