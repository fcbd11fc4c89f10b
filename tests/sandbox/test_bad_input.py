"""Bad input gets a clear status or error, and the sandbox continues."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator

import pytest

from records.tool_call import Status, ToolCall, ToolResult
from sandbox import Sandbox
from sandbox.server import fork_servers
from sandbox.settings import Settings
from sandbox.wire import MAX_FRAME_BYTES, FrameReader, Kind, decode_result, pack
from tests.sandbox.conftest import message_of, new_call

Run = Callable[[ToolCall], ToolResult]
_HEADER = struct.Struct("<IBQ")
_CALL = struct.Struct("<III dd QQ 16s")


@pytest.fixture
def run(sandbox: Sandbox) -> Callable[[ToolCall], ToolResult]:
    """Run a call, then one more that must succeed."""

    def run_and_go_on(call: ToolCall) -> ToolResult:
        result = sandbox.run(call)
        assert sandbox.run(new_call("6 * 7")).value == "42"
        return result

    return run_and_go_on


@contextlib.contextmanager
def _supervisor() -> Iterator[tuple[socket.socket, FrameReader]]:
    """The line of a supervisor with a test as its client. It ends by itself once the line closes."""
    settings = Settings(workers=1, preload=(), niceness=0, decayed_niceness=0)
    link, remote = socket.socketpair()
    process = subprocess.Popen(
        fork_servers.command(settings.python, "server.supervise", settings.to_text()),
        stdin=remote.fileno(),
        env=fork_servers.clean_environment(),
        process_group=0,
    )
    remote.close()
    link.settimeout(60)
    reader = FrameReader()
    with link:
        assert _next(link, reader)[0] is Kind.READY
        yield link, reader
    assert process.wait(30) == 0


@pytest.fixture(scope="module")
def line() -> Iterator[tuple[socket.socket, FrameReader]]:
    with _supervisor() as line:
        yield line


def test_nul_bytes_in_the_source_are_an_error_of_the_code(run: Run) -> None:
    result = run(new_call("print(1)\0"))
    assert (result.status, result.stdout) == (Status.ERROR, "")
    assert "null bytes" in message_of(result)


def test_nul_bytes_in_standard_input_reach_the_code(run: Run) -> None:
    assert run(new_call("import sys\nsys.stdin.read()", stdin="a\0b")).value == r"'a\x00b'"


def test_a_lone_surrogate_in_the_source_is_an_error_of_the_code(run: Run) -> None:
    result = run(new_call("print('\ud800')"))
    assert result.status is Status.ERROR
    assert result.error is not None
    assert result.error.type in ("UnicodeEncodeError", "SyntaxError")


def test_a_lone_surrogate_in_the_output_is_escaped(run: Run) -> None:
    result = run(new_call("print('\\ud800')\n'\\udfff'"))
    assert (result.stdout, result.value) == ("\\ud800\n", r"'\udfff'")
    json.dumps(result.to_json()).encode("utf-8")


def test_invalid_utf8_output_is_replaced(run: Run) -> None:
    result = run(new_call("import os\nos.write(1, b'\\xff ok \\xc3')\nNone"))
    assert (result.status, result.stdout) == (Status.OK, "\ufffd ok \ufffd")


def test_a_value_whose_repr_loops_is_a_timeout(run: Run) -> None:
    code = "class V:\n    def __repr__(self):\n        while True: pass\nV()"
    assert run(new_call(code, cpu_s=0.3)).status is Status.TIMEOUT


def _next(link: socket.socket, reader: FrameReader) -> tuple[Kind, int, bytes]:
    while not (frames := reader.feed(link.recv(65536))):
        pass
    return frames[0]


@pytest.mark.parametrize(
    "data",
    [
        _HEADER.pack(MAX_FRAME_BYTES + 1, Kind.CALL, 1),
        _HEADER.pack(2**32 - 1, Kind.CALL, 1) + b"x" * 1000,
        _HEADER.pack(4, 250, 1) + b"kind",
        b"\xff" * 5000,
    ],
    ids=["over the cap", "the longest length", "unknown kind", "garbage"],
)
def test_the_supervisor_closes_a_stream_without_frames(data: bytes) -> None:
    with _supervisor() as (link, _):
        link.sendall(data)
        assert link.recv(100) == b""


def _payload(
    code: bytes = b"1", *, session: bytes = b"", wall_s: float = 60.0, memory_bytes: int = 2**28
) -> bytes:
    head = _CALL.pack(len(session), len(code), 0, wall_s, 10.0, memory_bytes, 100, bytes(16))
    return head + session + code


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "not a call"),
        (b"\xff" * 40, "not a call"),
        (b"\xff" * 400, "do not add up"),
        (_payload()[:-1], "do not add up"),
        (_payload(session=b"\xff\xfe"), "not a call"),
        (_payload(session=b"s" * 1000), "session has more than"),
        (_payload(wall_s=-1.0), "limits.wall_s"),
        (_payload(wall_s=float("nan")), "limits.wall_s"),
        (_payload(memory_bytes=2**60), "limits.memory_bytes"),
        (_payload(b"#" * 5_000_000), "too long"),
    ],
    ids=["empty", "short", "garbage", "cut", "name", "long name", "negative", "nan", "memory", "source"],
)
def test_an_invalid_call_is_rejected_and_the_line_stays_open(
    line: tuple[socket.socket, FrameReader], payload: bytes, message: str
) -> None:
    link, reader = line
    link.sendall(pack(Kind.CALL, 7, payload))
    kind, number, answer = _next(link, reader)
    result = decode_result(answer, "x")
    assert (kind, number, result.status) == (Kind.RESULT, 7, Status.REJECTED)
    assert message in message_of(result)
    link.sendall(pack(Kind.CALL, 8, _payload(b"3 + 4")))
    assert decode_result(_next(link, reader)[2], "x").value == "7"


def test_an_unknown_session_or_call_is_ignored(line: tuple[socket.socket, FrameReader]) -> None:
    link, reader = line
    link.sendall(pack(Kind.CLOSE_SESSION, 0, b"\xffnever opened") + pack(Kind.CANCEL, 99))
    link.sendall(pack(Kind.RESULT, 5, b"not from a client") + pack(Kind.STATUS, 6))
    kind, number, _ = _next(link, reader)
    assert (kind, number) == (Kind.STATUS, 6)


def test_the_calls_of_a_vanished_client_end() -> None:
    with _supervisor() as (link, reader):
        sleeper = _payload(b"import time\ntime.sleep(600)", wall_s=600.0)
        link.sendall(b"".join(pack(Kind.CALL, number, sleeper) for number in range(1, 9)))
        link.sendall(pack(Kind.STATUS, 9))
        _next(link, reader)
