"""`ProcessEngine`: a local engine in a process of its own, which is started again when it ends.

A thread of this process reads what the child sends. The end of the child closes its socket, so the thread notices it
at once, whatever killed it; it counts the loss, starts another child and gives it the current weights. After
`MAX_RESTARTS` the engine is gone for good.

How rows share a batch depends on the clock here, so a run does not repeat bit by bit.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from records.errors import ConfigError
from trainer.engines.local import refusal
from trainer.engines.process_messages import (
    Abort,
    Answer,
    ChildSettings,
    Order,
    Release,
    WeightsOnDisk,
    WeightsTaken,
    receive,
    send,
    settings_text,
)
from trainer.engines.protocol import LiveWeights, Recovery
from trainer.engines.requests import Completion, EngineReport, GenerateRequest
from trainer.engines.weights_store import WeightsStore

MAX_RESTARTS = 3
"""Of one engine in one run; a fourth end has a cause that another start does not remove."""


class EngineProcessEnded(RuntimeError):
    """The process of the engine ended, with every request that it had."""


class ProcessEngine:
    """Implements `trainer.engines.protocol.Engine`. The child starts at once, in the background.

    Args:
        engine: number in reports.
        capacity_tokens: most tokens cached at any moment, over all sessions.
        max_len: most tokens of one context, sampled ones included.
        store: where weights of this process lie for the child; the caller closes it after the last of its engines.
        device: of the child.
        threads: of torch in the child.
        max_restarts: ends of the child that are answered by another start.
    """

    computes = False

    def __init__(
        self,
        *,
        engine: int,
        capacity_tokens: int,
        max_len: int,
        store: WeightsStore,
        device: str = "cpu",
        threads: int = 1,
        max_restarts: int = MAX_RESTARTS,
    ) -> None:
        self.version = -1
        self.recovery = Recovery.RESTARTING
        self.num_restarts = 0
        self._engine, self._longest, self._store = engine, min(max_len, capacity_tokens), store
        self._max_restarts = max_restarts
        self._settings = ChildSettings(
            engine=engine, capacity_tokens=capacity_tokens, max_len=max_len, device=device, threads=threads
        )
        self._wake: Callable[[], None] = lambda: None
        # Orders leave under this lock, in the order in which they were decided; taken before the other one.
        self._sending = threading.RLock()
        # Guards all that follows. Nothing is sent under it: the reader must never wait for the child to read.
        self._changed = threading.Condition()
        self._in_flight: set[str] = set()
        self._done: list[Completion] = []
        self._loss: EngineProcessEnded | None = None
        """Not yet raised."""
        self._report: EngineReport | None = None
        self._order: WeightsOnDisk | None = None
        """The newest."""
        self._answer: WeightsTaken | None = None
        """The newest."""
        self._is_closed = False
        self._child, self._connection = self._spawn()
        self._thread = threading.Thread(target=self._supervise, name=f"engine-{engine}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the newest child."""
        return self._child.pid

    # --- weights -----------------------------------------------------------------------------------------

    def call_when_done(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def take_weights(self, source: Path | LiveWeights, version: int) -> None:
        """Wait until the child holds them. ConfigError when it refuses them, EngineProcessEnded when it is gone."""
        with self._changed:
            if self._in_flight:
                raise RuntimeError(
                    f"{len(self._in_flight)} requests are in flight: finish or abort them before new weights"
                )
        is_checkpoint = isinstance(source, Path)
        folder = source.resolve() if is_checkpoint else self._store.folder(source, version)
        with self._sending:
            number = 0 if self._order is None else self._order.number + 1
            with self._changed:
                self._order = WeightsOnDisk(
                    number=number, folder=str(folder), is_checkpoint=is_checkpoint, version=version
                )
            self._send(self._order)
        with self._changed:
            self._changed.wait_for(lambda: self._answered(number) or self.recovery is Recovery.GONE)
            answer = self._answer
            if not self._answered(number) or answer is None:
                raise self._loss or EngineProcessEnded(f"engine process {self._engine} is gone")
            if answer.fault:
                raise ConfigError(f"engine process {self._engine} did not take the weights: {answer.fault}")
            # What ended before held no request.
            self._loss = None
            self.version = version

    def _answered(self, number: int) -> bool:
        return self._answer is not None and self._answer.number == number

    # --- requests ----------------------------------------------------------------------------------------

    def submit(self, request: GenerateRequest) -> None:
        with self._sending:
            with self._changed:
                self._raise_loss()
                problem = (
                    "already has a request in flight"
                    if request.session in self._in_flight
                    else refusal(request, self.version, self._longest)
                )
                if problem:
                    raise ValueError(f"session {request.session!r}: {problem}")
                self._in_flight.add(request.session)
            self._send(request)

    def advance(self) -> list[Completion]:
        """Return the completions so far. EngineProcessEnded, once, when the child ended with requests in flight."""
        with self._changed:
            if not self._done:
                self._raise_loss()
            found, self._done = self._done, []
            is_lost = self._loss is not None
        if is_lost:
            self._wake()
        return sorted(found, key=lambda completion: completion.session)

    def _raise_loss(self) -> None:
        """Called under the lock."""
        loss, self._loss = self._loss, None
        if loss is not None:
            self._done.clear()
            raise loss
        if self.recovery is not Recovery.BACK and self._order is not None:
            raise EngineProcessEnded(f"engine process {self._engine} is {self.recovery.name.lower()}")

    def abort(self, session: str) -> None:
        """Unknown sessions are ignored; what was sampled so far is in the completion."""
        with self._sending:
            self._send(Abort(session=session))

    def release(self, session: str) -> None:
        with self._sending:
            with self._changed:
                if session in self._in_flight:
                    raise RuntimeError(f"session {session!r} has a request in flight: abort it first")
            self._send(Release(session=session))

    def report(self) -> EngineReport | None:
        """The state of the child at the time `t` of the report, at most 20 ms and one iteration ago."""
        with self._changed:
            if self._report is None or self._in_flight:
                return self._report
            return replace(self._report, running=0, waiting=0)

    def close(self) -> None:
        """End the child: it has nothing to save."""
        with self._changed:
            self._is_closed = True
        self._child.kill()
        self._thread.join()

    # --- the child ---------------------------------------------------------------------------------------

    def _spawn(self) -> tuple[subprocess.Popen[bytes], Connection]:
        own_end, other_end = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        with own_end, other_end:
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "trainer.engines.process_child",
                    str(other_end.fileno()),
                    settings_text(self._settings),
                ],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[other_end.fileno()],
            )
            return child, Connection(own_end.detach())

    def _send(self, order: Order) -> None:
        """An ended child takes nothing; the thread notices its end."""
        with suppress(OSError):
            send(self._connection, [order])

    # --- the thread --------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Read, and start another child when one ends, until closed or gone."""
        while True:
            self._read_to_the_end()
            code = self._child.wait()
            if self._note_end(code) is not Recovery.RESTARTING:
                self._connection.close()
                return
            with self._sending:
                self._connection.close()
                self._child, self._connection = self._spawn()
                if self._order is not None:
                    self._send(self._order)
            if self._is_closed:
                self._child.kill()

    def _note_end(self, code: int) -> Recovery:
        with self._changed:
            if self._is_closed:
                self.recovery = Recovery.GONE
                return self.recovery
            again = self.num_restarts < self._max_restarts
            self.num_restarts += again
            self.recovery = Recovery.RESTARTING if again else Recovery.GONE
            if self._in_flight or not again:
                self._loss = EngineProcessEnded(
                    f"engine process {self._engine} ended ({_ending(code)}) with {len(self._in_flight)} turns in "
                    f"flight; {'it starts again' if again else 'it was started too often, and stays lost'}"
                )
            self._in_flight.clear()
            self._report = None
            self._changed.notify_all()
        self._wake()
        return self.recovery

    def _read_to_the_end(self) -> None:
        while True:
            try:
                answers = receive(self._connection)
            except (EOFError, OSError):
                return
            with self._changed:
                for answer in answers:
                    self._take(answer)
                self._changed.notify_all()
            self._wake()

    def _take(self, answer: Answer) -> None:
        """Called under the lock."""
        match answer:
            case Completion():
                self._in_flight.discard(answer.session)
                self._done.append(answer)
            case EngineReport():
                self._report = answer
            case WeightsTaken():
                self._answer = answer
                if self._order is not None and self._order.number == answer.number:
                    # A refusal is final as well: without it the loop would wait for a start that never ends.
                    self.recovery = Recovery.GONE if answer.fault else Recovery.BACK


def _ending(code: int) -> str:
    """How a process ended.

    >>> _ending(-9), _ending(1)
    ('signal SIGKILL', 'exit status 1')
    """
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
