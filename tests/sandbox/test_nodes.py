"""Nodes: the same calls over TCP, a secret at the door, and true answers when a node dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.tool_call import Status
from sandbox.client.connection import SandboxError
from sandbox.nodes import Nodes, RemoteNode
from sandbox.wire import Kind, encode_call, pack
from tests.sandbox.conftest import new_call, start_node

SECRET = b"a secret of the tests"


def _start(folder: Path, name: str, root: Path, *options: str) -> tuple[subprocess.Popen[bytes], str]:
    return start_node(folder, name, root, *options, secret=SECRET)


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Iterator[list[str]]:
    folder = tmp_path_factory.mktemp("nodes")
    started = [_start(folder, f"node-{k}", project_root) for k in range(2)]
    yield [address for _, address in started]
    for process, _ in started:
        process.terminate()
        assert process.wait(30) == 0


def test_calls_run_on_all_nodes_and_come_back_in_order(two_nodes: list[str]) -> None:
    with Nodes(two_nodes, secret=SECRET) as nodes:
        results = nodes.run_many(new_call(f"print({k})") for k in range(60))
    assert [result.stdout for result in results] == [f"{k}\n" for k in range(60)]


def test_a_session_stays_on_its_node(two_nodes: list[str]) -> None:
    with Nodes(two_nodes, secret=SECRET) as nodes:
        for name in ("a", "b", "c"):
            nodes.run(new_call(f"x = '{name}'", session=name))
        assert [nodes.run(new_call("x", session=name)).value for name in ("a", "b", "c")] == [
            "'a'",
            "'b'",
            "'c'",
        ]


def test_a_wrong_secret_is_refused_and_the_node_lives_on(two_nodes: list[str]) -> None:
    with pytest.raises(SandboxError, match="secret is wrong"):
        RemoteNode(two_nodes[0], b"another secret, wrong")
    with Nodes(two_nodes[:1], secret=SECRET) as nodes:
        assert nodes.run(new_call("1")).value == "1"


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, b"\x00" * 13, b""])
def test_garbage_at_the_door_is_refused_and_the_node_lives_on(two_nodes: list[str], garbage: bytes) -> None:
    host, port = two_nodes[0].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        link.sendall(garbage)
        link.shutdown(socket.SHUT_WR)
        while link.recv(4096):
            pass
    with Nodes(two_nodes[:1], secret=SECRET) as nodes:
        assert nodes.run(new_call("1")).value == "1"


@pytest.mark.parametrize("first", [Kind.HELLO, Kind.CALL])
def test_what_comes_behind_a_refused_secret_is_not_run(two_nodes: list[str], first: Kind) -> None:
    """In one segment with it: the door was shut, and the loop over the frames went on."""
    host, port = two_nodes[0].split(":")
    call = encode_call(new_call("import time\ntime.sleep(600)"))
    with socket.create_connection((host, int(port)), timeout=30) as link:
        link.sendall(pack(first, 0, b"wrong") + pack(Kind.CALL, 1, call) + pack(Kind.CALL, 2, call))
        while link.recv(4096):
            pass
    node = RemoteNode(two_nodes[0], SECRET)
    assert node.status()["running"] == node.status()["queued"] == 0
    node.close()


def test_no_node_at_an_address_is_said_at_once() -> None:
    with pytest.raises(SandboxError, match="does not answer"):
        Nodes(["127.0.0.1:1"], secret=SECRET)


def test_what_a_full_node_refuses_is_issued_again(tmp_path: Path, project_root: Path) -> None:
    process, address = _start(tmp_path, "small", project_root, "--queue-limit", "2")
    try:
        with Nodes([address], secret=SECRET) as one, Nodes([address], secret=SECRET) as other:
            futures = [
                client.submit(new_call("import time\ntime.sleep(0.02)"))
                for _ in range(40)
                for client in (one, other)
            ]
            assert {future.result(120).status for future in futures} == {Status.OK}
    finally:
        process.terminate()
        process.wait(30)


def test_a_cancel_that_a_full_node_overtakes_is_kept(tmp_path: Path, project_root: Path) -> None:
    """The node refused the call before it read the cancel, and the call went round and round."""
    process, address = _start(tmp_path, "full", project_root, "--queue-limit", "1")
    try:
        other = RemoteNode(address, SECRET)
        blockers = []
        for num in range(1, 6):  # one after the other: of several at once the queue takes one
            blockers.append(other.submit(new_call("import time\ntime.sleep(600)")))
            while (status := other.status())["running"] + status["queued"] < num:
                time.sleep(0.02)
        with Nodes([address], secret=SECRET) as nodes:
            os.kill(process.pid, signal.SIGSTOP)  # so that the cancels leave before the refusals come
            futures = [nodes.submit(new_call("1", id=f"withdrawn {k}")) for k in range(3)]
            for k in range(3):
                nodes.cancel(f"withdrawn {k}")
            os.kill(process.pid, signal.SIGCONT)
            assert {future.result(60).status for future in futures} == {Status.CANCELLED}
        other.close()
        assert {future.result(10).status for future in blockers} == {Status.CANCELLED}
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.kill
def test_a_node_killed_under_load_ends_its_calls_and_the_other_goes_on(
    tmp_path: Path, project_root: Path
) -> None:
    started = [_start(tmp_path, f"node-{k}", project_root) for k in range(2)]
    with Nodes([address for _, address in started], secret=SECRET) as nodes:
        nodes.run(new_call("x = 1", session="kept"))
        home = [address for _, address in started].index(nodes._node_of["kept"].address)
        dead, alive = started[home][0], started[1 - home][0]
        futures = [nodes.submit(new_call("import time\ntime.sleep(0.3)")) for _ in range(24)]
        os.kill(dead.pid, signal.SIGKILL)
        statuses = [future.result(120).status for future in futures]
        assert set(statuses) == {Status.OK, Status.LOST}
        assert nodes.run(new_call("5")).value == "5"
        assert nodes.run(new_call("x", session="kept")).status is Status.SESSION_LOST
    dead.wait(30)
    alive.terminate()
    assert alive.wait(30) == 0


def test_calls_that_wait_while_no_node_is_left_end_as_lost(
    tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call every two seconds was tried, and a hundred of them took minutes."""
    monkeypatch.setattr("sandbox.nodes.GIVE_UP_S", 0.5)
    process, address = start_node(tmp_path, "last", project_root, secret=SECRET)
    with Nodes([address], secret=SECRET) as nodes:
        assert nodes.run(new_call("1")).value == "1"
        process.kill()
        process.wait()
        began = time.monotonic()
        results = nodes.run_many(new_call("1") for _ in range(100))
        assert {result.status for result in results} == {Status.LOST}
        assert time.monotonic() - began < 30.0


def test_a_secret_that_is_too_short_is_refused(tmp_path: Path, project_root: Path) -> None:
    (tmp_path / "secret").write_text("short")
    done = subprocess.run(
        [sys.executable, "-m", "sandbox", "serve", "--secret-file", str(tmp_path / "secret")],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "at least 16" in done.stderr
