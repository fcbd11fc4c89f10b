"""The process of one engine: `python -m trainer.engines.process_child DESCRIPTOR SETTINGS`.

It drives a `LocalEngine` by the orders of its parent and ends when the parent closes its end or dies.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from trainer.engines.local import LocalEngine
from trainer.engines.process_messages import (
    Abort,
    Answer,
    Order,
    Release,
    WeightsOnDisk,
    WeightsTaken,
    receive,
    send,
    settings_of,
)
from trainer.engines.requests import EngineReport, GenerateRequest
from trainer.engines.weights_store import read_weights
from trainer.weights import one_line

REPORT_EVERY_S = 0.02
"""At most while it decodes; an idle engine reports whenever its state changes."""


def serve(connection: Connection, engine: LocalEngine) -> None:
    """Decode until the parent is gone."""
    reported: EngineReport | None = None
    reported_at, num_in_flight = 0.0, 0
    while True:
        answers: list[Answer] = []
        timeout = 0.0 if num_in_flight else None
        while connection.poll(timeout):
            for order in receive(connection):
                num_in_flight += isinstance(order, GenerateRequest)
                answers += _obey(engine, order)
            timeout = 0.0
        if num_in_flight:
            done = engine.advance()
            num_in_flight -= len(done)
            answers += done
        now, state = time.monotonic(), _state(engine)
        if state != reported and (not num_in_flight or now - reported_at >= REPORT_EVERY_S):
            reported, reported_at = state, now
            answers.append(replace(state, t=now))
        if answers:
            send(connection, answers)


def _state(engine: LocalEngine) -> EngineReport:
    """The report without its time, to compare."""
    return replace(engine.report(), t=0.0)


def _obey(engine: LocalEngine, order: Order) -> list[Answer]:
    match order:
        case GenerateRequest():
            engine.submit(order)
        case Abort():
            engine.abort(order.session)
        case Release():
            engine.release(order.session)
        case WeightsOnDisk():
            return [WeightsTaken(number=order.number, fault=_take(engine, order))]
    return []


def _take(engine: LocalEngine, order: WeightsOnDisk) -> str:
    folder = Path(order.folder)
    try:
        engine.take_weights(folder if order.is_checkpoint else read_weights(folder), order.version)
    except (ValueError, OSError) as error:
        return one_line(error)
    return ""


def main() -> None:
    """Serve the parent that started this process."""
    # Ctrl-C reaches every process of the terminal; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = settings_of(sys.argv[2])
    torch.set_num_threads(settings.threads)
    engine = LocalEngine(
        engine=settings.engine,
        capacity_tokens=settings.capacity_tokens,
        max_len=settings.max_len,
        device=settings.device,
    )
    try:
        serve(Connection(int(sys.argv[1])), engine)
    except (EOFError, OSError):  # the parent is gone
        sys.exit(0)


if __name__ == "__main__":
    main()
