"""`FlakyTool`: fails valid calls at random, which is noise from outside the policy, for the dose-response arms."""

from __future__ import annotations

import random
from concurrent.futures import Future

from records.tool_call import Status, ToolCall, ToolError, ToolResult
from trainer.rollout.tool import Tool


class FlakyTool:
    """Passes calls on, except a share that it answers with an error; the seed of a call decides.

    The model sees the error, and it counts as a failed call like any other: the experiment measures this effect.
    """

    def __init__(self, tool: Tool, fail_frac: float) -> None:
        self._tool, self._fail_frac = tool, fail_frac

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        if random.Random(f"flaky:{call.seed}").random() >= self._fail_frac:
            return self._tool.submit(call)
        error = ToolError(
            type="OSError", message="the service is busy", traceback="OSError: the service is busy\n"
        )
        future: Future[ToolResult] = Future()
        future.set_result(ToolResult(id=call.id, status=Status.ERROR, error=error))
        return future

    def close_session(self, name: str) -> None:
        self._tool.close_session(name)
