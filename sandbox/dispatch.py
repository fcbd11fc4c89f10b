"""The dispatch of the paper as a policy of the client: a central queue, send workers, batches with a timeout.

A send worker takes a waiting call and whatever else waits, up to the size of a batch, within the timeout; it sends
the batch and takes the next one when every call of the batch has ended. With `answers_together` a caller also gets
its answer only then, as from the public service whose batch answers as one. The default client does neither: each
call is sent at once and answered by itself.
"""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future

from records.errors import UserError
from records.tool_call import Status, ToolCall, ToolResult
from sandbox.client.tool_runner import ToolRunner
from sandbox.wire import refusal

Waiting = tuple[ToolCall, Future[ToolResult]]


class BatchDispatch(ToolRunner):
    """Sends calls in batches; the methods are those of `Sandbox`. Paper: 32 send workers, batches of at most 64.

    Args:
        runner: where the calls run; the caller closes it.
        num_senders: batches on their way at once.
        batch_size: calls of one batch at most.
        batch_timeout_s: how long a sender waits for its batch to fill. 0: it takes what is there.
        answers_together: a call is answered when its whole batch has ended.

    Raises:
        UserError: a number out of range.
    """

    def __init__(
        self,
        runner: ToolRunner,
        *,
        num_senders: int = 32,
        batch_size: int = 64,
        batch_timeout_s: float = 0.05,
        answers_together: bool = True,
    ) -> None:
        if num_senders < 1 or batch_size < 1 or batch_timeout_s < 0:
            raise UserError(
                f"batch dispatch has num_senders={num_senders}, batch_size={batch_size}, "
                f"batch_timeout_s={batch_timeout_s}; give 1 or more, 1 or more, 0 or more"
            )
        self._runner = runner
        self._batch_size = batch_size
        self._batch_timeout_s = batch_timeout_s
        self._answers_together = answers_together
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self.batch_sizes: list[int] = []
        """Calls of every batch sent so far."""
        self._senders = [
            threading.Thread(target=self._send_batches, name=f"sender-{k}", daemon=True)
            for k in range(num_senders)
        ]
        for sender in self._senders:
            sender.start()

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        """Queue a call; its future always gets a result, never an exception."""
        future: Future[ToolResult] = Future()
        with self._lock:
            if self._is_closed:
                future.set_result(refusal(Status.REJECTED, "the dispatch is closed", call.id))
            else:
                self._queue.put((call, future))
        return future

    def close(self) -> None:
        """Send what waits, let it end, stop the senders."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for _ in self._senders:
                self._queue.put(None)
        for sender in self._senders:
            sender.join()

    def _send_batches(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if batch:
                self.batch_sizes.append(len(batch))
                self._send(batch)

    def _next_batch(self) -> tuple[list[Waiting], bool]:
        """Calls for one batch, and whether more may follow."""
        first = self._queue.get()
        if first is None:
            return [], False
        batch = [first]
        until = time.monotonic() + self._batch_timeout_s
        while len(batch) < self._batch_size:
            try:
                left_s = until - time.monotonic()
                entry = self._queue.get(timeout=left_s) if left_s > 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if entry is None:
                return batch, False
            batch.append(entry)
        return batch, True

    def _send(self, batch: list[Waiting]) -> None:
        """Run a batch to its end."""
        running = [(self._runner.submit(call), future) for call, future in batch]
        if not self._answers_together:
            for ran, future in running:
                ran.add_done_callback(lambda done, future=future: future.set_result(done.result()))
        results = [ran.result() for ran, _ in running]
        if self._answers_together:
            for result, (_, future) in zip(results, running, strict=True):
                future.set_result(result)
