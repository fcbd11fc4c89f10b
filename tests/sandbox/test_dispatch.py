"""Batch dispatch: the paper's way to send calls, beside one by one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from records.errors import UserError
from records.tool_call import Status, ToolCall, ToolResult
from sandbox.client.client import Sandbox
from sandbox.client.tool_runner import ToolRunner
from sandbox.dispatch import BatchDispatch
from tests.sandbox.conftest import new_call


class Held(ToolRunner):
    """Runs nothing: keeps every call until the test ends it."""

    def __init__(self) -> None:
        self.calls: list[tuple[ToolCall, Future[ToolResult]]] = []
        self._arrived = threading.Condition()

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        future: Future[ToolResult] = Future()
        with self._arrived:
            self.calls.append((call, future))
            self._arrived.notify_all()
        return future

    def close(self) -> None:
        """Holds nothing but calls."""

    def wait_for(self, count: int) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.calls) >= count, timeout=60)

    def end(self, index: int) -> None:
        call, future = self.calls[index]
        future.set_result(ToolResult(id=call.id, status=Status.OK, value=call.code))


def test_batches_give_the_same_answers_in_order(sandbox: Sandbox) -> None:
    with BatchDispatch(sandbox, num_senders=3, batch_size=8) as batches:
        results = batches.run_many(new_call(f"print({k})") for k in range(50))
        assert batches.run(new_call("1 + 1")).value == "2"
    assert [result.stdout for result in results] == [f"{k}\n" for k in range(50)]
    assert sum(batches.batch_sizes) == 51
    assert max(batches.batch_sizes) <= 8


def test_a_batch_answers_when_its_slowest_call_has_ended() -> None:
    held = Held()
    with BatchDispatch(held, num_senders=1, batch_size=2, batch_timeout_s=60) as batches:
        quick, slow = batches.submit(new_call("quick")), batches.submit(new_call("slow"))
        held.wait_for(2)
        held.end(0)
        assert not quick.done()
        held.end(1)
        assert [quick.result(60).value, slow.result(60).value] == ["quick", "slow"]


def test_answers_one_by_one_do_not_wait_for_the_batch() -> None:
    held = Held()
    with BatchDispatch(
        held, num_senders=1, batch_size=2, batch_timeout_s=60, answers_together=False
    ) as batches:
        quick, slow = batches.submit(new_call("quick")), batches.submit(new_call("slow"))
        held.wait_for(2)
        held.end(0)
        assert quick.result(60).value == "quick"
        assert not slow.done()
        held.end(1)


def test_a_batch_that_does_not_fill_leaves_after_its_timeout() -> None:
    held = Held()
    with BatchDispatch(held, num_senders=1, batch_size=64, batch_timeout_s=0.01) as batches:
        batches.submit(new_call("alone"))
        held.wait_for(1)
        held.end(0)
    assert batches.batch_sizes == [1]


def test_a_sender_takes_no_second_batch_before_the_first_has_ended() -> None:
    held = Held()
    with BatchDispatch(held, num_senders=1, batch_size=1, batch_timeout_s=0) as batches:
        batches.submit(new_call("first"))
        second = batches.submit(new_call("second"))
        held.wait_for(1)
        time.sleep(0.1)  # long enough for a sender that does not wait
        assert len(held.calls) == 1
        held.end(0)
        held.wait_for(2)
        held.end(1)
        assert second.result(60).value == "second"


def test_closing_ends_what_waits_and_refuses_what_comes_later(sandbox: Sandbox) -> None:
    batches = BatchDispatch(sandbox, num_senders=1, batch_size=4)
    futures = [batches.submit(new_call(str(k))) for k in range(10)]
    batches.close()
    assert [future.result().value for future in futures] == [str(k) for k in range(10)]
    assert batches.run(new_call("1")).status is Status.REJECTED


@pytest.mark.parametrize("fields", [{"num_senders": 0}, {"batch_size": 0}, {"batch_timeout_s": -1.0}])
def test_numbers_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(UserError, match="give 1 or more"):
        BatchDispatch(Held(), **fields)  # type: ignore[arg-type]
