"""Magicoder OSS-Instruct: columns problem and solution; the solution's Python becomes a call of the Python tool.

The call ends the conversation: nobody ran these programs, so no result is invented.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from trainer.data.conversations.conversation import (
    Call,
    Conversation,
    Converter,
    Message,
    conversation,
    field_of,
)
from trainer.data.sources import RowFault

TOOL = "execute_python_code_with_standard_io"
_BLOCK = re.compile(r"```(?:python|py)[^\n]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


def convert(record: Mapping[str, Any], id: str, source: str) -> Conversation:
    """A row whose solution has one Python block. Raises RowFault: no_code, several_blocks, bad_code."""
    problem, solution = field_of(record, "problem", str), field_of(record, "solution", str)
    blocks = list(_BLOCK.finditer(solution))
    if not blocks:
        raise RowFault("no_code", solution[:60])
    if len(blocks) > 1:
        raise RowFault("several_blocks", f"{len(blocks)} blocks of code")
    code = blocks[0][1].rstrip("\n")
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RowFault("bad_code", str(error)[:80]) from None
    call = Call.of(TOOL, {"code": code, "input": ""})
    before = solution[: blocks[0].start()].strip()
    messages = [
        Message(role="user", text=problem),
        Message(role="assistant", text=before, calls=(call,)),
    ]
    return conversation(id, source, messages, (signature(),))


def signature() -> str:
    """The Python tool as the conversation of rollouts states it."""
    from trainer.rollout.chat import ChatFormat

    schema = json.loads(ChatFormat(system="full", tool_name=TOOL).schema())
    return json.dumps(schema["function"], sort_keys=True, ensure_ascii=False)


CONVERTER = Converter(name="magicoder", convert=convert)
