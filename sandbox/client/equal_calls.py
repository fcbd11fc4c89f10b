"""`EqualCalls`: runs equal calls once, because rollouts of a group often make the same call.

On the tiny run, two thirds of the calls of a step repeat an earlier call of that step, and the arms, which share
problems, repeat calls of each other. A pure program
(`sandbox.client.purity`) gives the same result again, without another process. Only stateless calls qualify, since a
session has a past, and only with fixed addresses (`Sandbox.has_fixed_addresses`): they order a set of types.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox.client.call_record import CallRecord
from sandbox.client.client import Caller
from sandbox.client.near_limit import NearLimitCalls, digest_of
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

    Args:
        tool: where calls run.
        record: results of the other jobs of the run, and of this job before a kill; None shares nothing.
        around: what decides a result besides the call (`surroundings`).
    """

    def __init__(
        self, tool: Caller | NearLimitCalls, record: CallRecord | None = None, around: str = ""
    ) -> None:
        self._tool = tool
        self._record, self._around = record, around
        self._first: OrderedDict[_Program, Future[ToolResult]] = OrderedDict()

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        if call.session is not None or not is_pure(call.code):
            return self._tool.submit(call)
        program = (call.code, call.stdin, call.limits)
        first = self._first.get(program)
        if first is not None and (not first.done() or _is_decided_by_code(first.result())):
            return self._repeat(first, call)
        first = self._recorded(call) or self._run(call)
        self._first[program] = first
        if len(self._first) > _MOST_KEPT:
            self._first.popitem(last=False)
        return first

    def _recorded(self, call: ToolCall) -> Future[ToolResult] | None:
        """Return the result that a job of this run recorded for an equal call."""
        if self._record is None:
            return None
        result = self._record.find(digest_of(call, self._around))
        if result is None:
            return None
        own: Future[ToolResult] = Future()
        own.set_result(replace(result, id=call.id))
        return own

    def _run(self, call: ToolCall) -> Future[ToolResult]:
        """Run a call and record what its code decided."""
        future = self._tool.submit(call)
        if self._record is not None:
            future.add_done_callback(partial(self._keep, call))
        return future

    def _keep(self, call: ToolCall, done: Future[ToolResult]) -> None:
        if self._record is None or not _is_decided_by_code(done.result()):
            return
        try:
            self._record.keep(digest_of(call, self._around), done.result().without_clock())
        except OSError as error:  # the record saves time only
            print(f"note: results of equal calls are no longer recorded: {error.strerror}", file=sys.stderr)
            self._record = None

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
        if self._record is not None:
            self._record.close()


def _is_decided_by_code(result: ToolResult) -> bool:
    return result.status in (Status.OK, Status.ERROR)
