"""`EqualCalls`: runs equal calls once, because rollouts of a group often make the same call.

On the tiny run, two thirds of the calls of a step repeat an earlier call of that step. A pure program
(`sandbox.client.purity`) gives the same result again, without another process. Only stateless calls qualify, since a
session has a past, and only with fixed addresses (`Sandbox.has_fixed_addresses`): they order a set of types.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import replace

from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox.client.client import Caller
from sandbox.client.near_limit import NearLimitCalls
from sandbox.client.purity import is_pure
from sandbox.client.tool_runner import ToolRunner

_Program = tuple[str, str, Limits]
_MOST_KEPT = 4096
"""Programs whose results are kept; the one first requested longest ago is dropped first."""


class EqualCalls(ToolRunner):
    """Passes calls on; a call whose pure program is running or done receives that result instead.

    Only an end that the code itself decided is repeated. A call that met a limit or was lost predicts nothing for the
    next one, which goes to the tool; in a deterministic run `NearLimitCalls` repeats the limit.
    A repeated result took no time: its measured quantities are 0.
    """

    def __init__(self, tool: Caller | NearLimitCalls) -> None:
        self._tool = tool
        self._first: OrderedDict[_Program, Future[ToolResult]] = OrderedDict()

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        if call.session is not None or not is_pure(call.code):
            return self._tool.submit(call)
        program = (call.code, call.stdin, call.limits)
        first = self._first.get(program)
        if first is not None and (not first.done() or _is_decided_by_code(first.result())):
            return self._repeat(first, call)
        first = self._tool.submit(call)
        self._first[program] = first
        if len(self._first) > _MOST_KEPT:
            self._first.popitem(last=False)
        return first

    def _repeat(self, first: Future[ToolResult], call: ToolCall) -> Future[ToolResult]:
        own: Future[ToolResult] = Future()

        def answer(done: Future[ToolResult]) -> None:
            result = done.result()
            if _is_decided_by_code(result):
                own.set_result(replace(result.without_clock(), id=call.id))
            else:
                self._tool.submit(call).add_done_callback(lambda other: own.set_result(other.result()))

        first.add_done_callback(answer)
        return own

    def close_session(self, name: str) -> None:
        """End a session of the wrapped tool."""
        self._tool.close_session(name)

    def close(self) -> None:
        self._tool.close()


def _is_decided_by_code(result: ToolResult) -> bool:
    return result.status in (Status.OK, Status.ERROR)
