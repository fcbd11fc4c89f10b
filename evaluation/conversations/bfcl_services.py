"""`FunctionScript` and `open_services`: scripts of BFCL's conversations, and the sandbox of their services."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.conversations.native_chat import NativeChat
from evaluation.conversations.script_episode import ScriptFailed
from records.problem import Problem
from records.tool_call import Limits, Status, ToolCall
from sandbox import NearLimitCalls, Sandbox, surroundings
from trainer.rollout.chat_text import ChatText
from trainer.rollout.chatml import follow_up
from verifier.bfcl.calls import Kind, kind_of
from verifier.bfcl.entry import entry_of
from verifier.bfcl.episodes import (
    CALL_LIMITS,
    PRELOAD,
    BackendFailed,
    Conversation,
    Ran,
    RunCode,
)
from verifier.bfcl.prompts import Mode, shown

_CAUSED_BY_CODE = frozenset({Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT, Status.CRASH})
"""Ends that a model's calls can cause. The services catch exceptions, so any other end is an infrastructure failure."""


@dataclass(slots=True)
class FunctionScript:
    """One entry. A single-turn entry ends with its first answer; a conversation continues while calls or users come."""

    prompt: ChatText
    conversation: Conversation | None
    run_code: RunCode | None

    @classmethod
    def of(cls, problem: Problem, mode: Mode, chat: NativeChat, run_code: RunCode | None) -> FunctionScript:
        """Return the script of an entry; `run_code` may be None for a single-turn entry."""
        conversation = Conversation(problem) if kind_of(problem.family) is Kind.MULTI_TURN else None
        entry = entry_of(problem)
        functions = conversation.functions if conversation else entry.functions
        return cls(chat.opening(*shown(entry, entry.user_turns[0], functions, mode)), conversation, run_code)

    def opening(self) -> ChatText:
        return self.prompt

    def add_turn(self, text: str) -> bool:
        return self.conversation is not None and self.conversation.add_turn(text)

    def reply(self) -> ChatText:
        if self.conversation is None or self.run_code is None:
            raise ScriptFailed("no services to run the calls")
        try:
            return follow_up(self.conversation.next_messages(self.run_code))
        except BackendFailed as error:
            raise ScriptFailed(str(error)) from None


@contextmanager
def open_services(workers: int, call_record: Path | None = None) -> Iterator[RunCode]:
    """Open a sandbox with the simulated services; every call starts from the same state, so none is kept.

    Args:
        workers: CPU cores that it may use.
        call_record: file of the calls near their limit, which makes their results repeatable; None: no record.
    """
    numbers = itertools.count()
    with Sandbox(workers=workers, preload=PRELOAD) as sandbox:
        tool = sandbox if call_record is None else NearLimitCalls(sandbox, call_record, surroundings(PRELOAD))

        def run_code(code: str, stdin: str) -> Ran:
            call = ToolCall(
                id=f"services{next(numbers)}", code=code, stdin=stdin, limits=Limits(**CALL_LIMITS)
            )
            done = tool.run(call)
            fault = "" if done.status is Status.OK else f"{done.status}: {done.error}"
            return Ran(done.stdout, fault, done.status not in _CAUSED_BY_CODE)

        yield run_code
