"""Random messages to the readers of a child's bytes: outcomes and the session protocol. None may raise.

    python -m tests.sandbox.fuzz --count 10000000 --seed 0

Half of the messages are outcomes (any bytes, and mutated honest ones), half are pieces on the line of a session, in
any order, with any close; the pool of sessions is the real one, its supervisor a stand-in.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import time
from collections import deque
from typing import Any, cast

from records.tool_call import Limits, ToolResult
from sandbox.server.child_bytes import (
    CELL_HEADER,
    SET_UP,
    decode,
    from_character_start,
    parse_outcome,
    to_character_end,
)
from sandbox.server.outcome import Ending, Reading, judge
from sandbox.server.session_pool import SessionPool
from sandbox.server.supervisor_state import Connection, Pending, Run, Session
from sandbox.settings import Settings
from sandbox.wire import decode_result, encode_result

LIMITS = Limits(output_bytes=64)
HOW = Reading(limits=LIMITS, folder="/seat/tmp", deterministic=True)
_ATOMS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 2**63, 10**30, "", "ok", "error", "timeout",
    "memory", "lost", "x" * 300, "\ud800", "\udfff\U0001f600", "at 0x7f0000000000", "/seat/tmp", "\0", [], {}, [[]],
)  # fmt: skip
_KEYS = ("status", "value", "value_dropped", "type", "message", "traceback", "wall_s", "cpu_s", "other")
_TEXTS = (
    b"",
    b"{",
    b"[" * 3000,
    b"9" * 5000,
    b'{"status": "ok"}',
    b"\xff\xfe",
    b"NaN",
    b'{"status": "ok", "status": 1}',
)


def random_outcome(rng: random.Random) -> bytes:
    """Honest, mutated or arbitrary bytes."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(40))
    if kind == 1:
        return rng.choice(_TEXTS)
    record = {rng.choice(_KEYS): rng.choice(_ATOMS) for _ in range(rng.randrange(9))}
    if kind != 2:
        record["status"] = rng.choice(("ok", "error", "timeout", "memory"))
    text = bytearray(json.dumps(record).encode())
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        text[rng.randrange(len(text))] = rng.randrange(256)
    return bytes(text[: rng.randrange(len(text) + 1)] if rng.random() < 0.1 else text)


def check_result(result: ToolResult) -> None:
    """A result that can be sent, stored and written."""
    assert decode_result(encode_result(result), "") == result
    error = result.error
    for text in (
        result.stdout,
        result.value or "",
        *((error.type, error.message, error.traceback) if error else ()),
    ):
        text.encode("utf-8")
    assert 0.0 <= result.wall_s < 1e6
    assert 0.0 <= result.cpu_s < 1e6


def try_outcome(rng: random.Random) -> None:
    """One outcome, from its bytes to the bytes of a result."""
    data = random_outcome(rng)
    ending = Ending(
        exit_code=rng.choice((0, 0, 0, 1, 70, -9, -11, -24, -25, -27, -64)),
        limit_hit=rng.choice(("", "", "wall time limit of 1 s reached")),
        wall_s=rng.choice((0.0, 0.5)),
        cpu_s=rng.choice((0.0, 3.0)),
    )
    head, tail = to_character_end(data[:9]), from_character_start(data[9:18])
    streams = ((decode(head), 0, False), (decode(tail), rng.randrange(3), rng.random() < 0.05))
    check_result(judge(parse_outcome(data), *streams, ending, HOW))


class StandIn:
    """The parts of a supervisor, its fork server and its poller that a pool of sessions uses."""

    def __init__(self) -> None:
        self.settings = Settings(preload=(), max_sessions=1)
        self.runs: dict[int, Run] = {}
        self.queue: deque[Pending] = deque()
        self.num_answers = 0
        self.seats = self.folders = self.watch = self.poller = self.tiers = self
        self.for_sessions = [self.settings.num_slots]
        self.last = 0
        self.server = self

    def answer(self, _pending: Pending, result: ToolResult) -> None:
        self.num_answers += 1
        check_result(result)

    def judge(self, record: Any, _out: int, _err: int, ending: Ending, _run: Run) -> ToolResult:
        return judge(record, ("", 0, False), ("", 0, False), ending, HOW)

    def release(self, seat: int) -> None:
        self.for_sessions.append(seat)

    def server_for(self, _tier: int) -> StandIn:
        return self

    def add(self, _seat: int) -> None: ...
    def make(self, _seat: int) -> None: ...
    def ask(self, *_: object, **__: object) -> None: ...
    def start(self, *_: object) -> None: ...
    def register(self, *_: object) -> None: ...
    def unregister(self, *_: object) -> None: ...
    def modify(self, *_: object) -> None: ...


def random_piece(rng: random.Random) -> bytes:
    """Bytes that the code of a session might write on its line."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 30))
    if kind == 1:
        return SET_UP
    if kind == 2:
        return CELL_HEADER.pack(rng.choice((0, 1, 16, 2**31, 2**32 - 1)))
    text = random_outcome(rng)
    whole = CELL_HEADER.pack(len(text)) + text
    return whole if kind != 3 or not text else whole[: rng.randrange(1, len(whole))]


class SessionFuzz:
    """One seat for sessions, filled anew whenever its session has ended."""

    def __init__(self) -> None:
        self.desk = StandIn()
        self.pool = SessionPool(cast("Any", self.desk))
        self.connection = Connection(socket.socketpair()[0])
        self.number = self.num_submitted = 0

    def _submit(self, name: str) -> None:
        self.num_submitted += 1
        self.pool.start_cell(
            Pending(self.connection, 1, name, LIMITS, b"job", 0, time.monotonic()), time.monotonic()
        )

    def step(self, rng: random.Random) -> None:
        """One message, close, exit or cell."""
        session: Session | None = next(iter(self.pool._by_seat.values()), None)
        if session is None:
            self.number += 1
            self._submit(f"s{self.number}")
            return
        pick = rng.random()
        is_readable = session.link.fileno() in self.pool.by_link
        if pick < 0.85 and is_readable:
            try:
                session._other_end.send(random_piece(rng), socket.MSG_DONTWAIT)
            except OSError:
                is_readable = True
            self.pool.on_readable(session)
        elif pick < 0.90:
            self._submit(f"s{self.number}")
        elif pick < 0.93 and is_readable:
            session._other_end.shutdown(rng.choice((socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR)))
            self.pool.on_readable(session)
        elif pick < 0.96:
            run = self.desk.runs.pop(session.seat, None)
            self.pool.on_exit(session.seat, run, 1, rng.choice((0, 256, 9, 11, 17920)), 0.1, 1)
        elif pick < 0.98:
            self.pool.close(self.connection, f"s{self.number}")
        self.dispatch()

    def dispatch(self) -> None:
        """Start what waits."""
        while self.desk.queue:
            self.pool.start_cell(self.desk.queue.popleft(), time.monotonic())

    def end(self) -> None:
        """End the interpreters, and those of the cells that start again."""
        while self.pool._by_seat:
            for session in list(self.pool._by_seat.values()):
                run = self.desk.runs.pop(session.seat, None)
                self.pool.on_exit(session.seat, run, 1, 9, 0.1, 1)
            self.dispatch()


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """Send `count` messages; return the numbers of submitted and of answered cells."""
    rng = random.Random(seed)
    sessions = SessionFuzz()
    for number in range(count):
        if number % 2:
            try_outcome(rng)
        else:
            sessions.step(rng)
    sessions.end()
    return sessions.num_submitted, sessions.desk.num_answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.monotonic()
    submitted, answered = fuzz(arguments.count, arguments.seed)
    seconds = time.monotonic() - start
    print(f"{arguments.count} messages in {seconds:.0f} s, seed {arguments.seed}: no exception; ", end="")
    print(f"{answered} of {submitted} cells answered")
    sys.exit(submitted != answered)


if __name__ == "__main__":
    main()
