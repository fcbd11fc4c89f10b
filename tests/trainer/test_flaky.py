"""The tool that fails at random: the configured share, equal calls in a repetition."""

from __future__ import annotations

from concurrent.futures import Future

from records.tool_call import Limits, Status, ToolCall, ToolResult
from trainer.rollout.flaky_tool import FlakyTool


class GoodTool:
    def submit(self, call: ToolCall) -> Future[ToolResult]:
        future: Future[ToolResult] = Future()
        future.set_result(ToolResult(id=call.id, status=Status.OK))
        return future

    def close_session(self, name: str) -> None:
        """No session to close."""


def statuses(fail_frac: float, count: int = 2000) -> list[Status]:
    tool = FlakyTool(GoodTool(), fail_frac)
    calls = [ToolCall(id=str(i), code="pass", seed=i, limits=Limits()) for i in range(count)]
    return [tool.submit(call).result().status for call in calls]


def test_the_share_matches_its_setting_and_repeats() -> None:
    found = statuses(0.2)
    assert abs(found.count(Status.ERROR) / len(found) - 0.2) < 0.03
    assert found == statuses(0.2)


def test_none_and_all() -> None:
    assert set(statuses(0.0, 50)) == {Status.OK}
    assert set(statuses(1.0, 50)) == {Status.ERROR}


def test_a_larger_share_fails_the_same_calls_and_more() -> None:
    few, many = statuses(0.1, 300), statuses(0.4, 300)
    assert all(b is Status.ERROR for a, b in zip(few, many, strict=True) if a is Status.ERROR)
