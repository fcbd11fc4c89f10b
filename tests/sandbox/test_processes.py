"""With `allow_processes` code may start processes, and none outlives its call."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.tool_call import Status
from sandbox import Sandbox
from tests.sandbox.conftest import new_call, small_sandbox

pytestmark = pytest.mark.hostile

DAEMON = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        time.sleep(600)
        os._exit(0)
    os._exit(0)
print(os.read(read, 20).decode())
"""
TREE = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        for _ in range(2):
            if os.fork() == 0:
                break
        break
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def open_sandbox() -> Iterator[Sandbox]:
    with small_sandbox(allow_processes=True, deterministic=False) as sandbox:
        yield sandbox


def _ends(pid: int) -> bool:
    """Whether a process ends (a zombie has ended) within the time that a busy machine may need."""
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(400):
        try:
            if ") Z" in stat.read_text():
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def _group(leader: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == leader and fields[0] != "Z":
                members.append(int(entry.name))
    return members


def test_code_may_fork_and_start_programs_only_when_allowed(open_sandbox: Sandbox, sandbox: Sandbox) -> None:
    code = "import subprocess\nsubprocess.run(['echo', 'hello'], capture_output=True, text=True).stdout"
    assert open_sandbox.run(new_call(code)).value == "'hello\\n'"
    assert sandbox.run(new_call(code)).status is Status.ERROR


def test_a_daemon_ends_with_its_call(open_sandbox: Sandbox) -> None:
    result = open_sandbox.run(new_call(DAEMON))
    assert result.status is Status.OK
    assert _ends(int(result.stdout))


def test_a_tree_of_processes_ends_at_the_limit(open_sandbox: Sandbox) -> None:
    future = open_sandbox.submit(new_call(TREE, wall_s=2.0))
    zygote = open_sandbox.started["zygotes"][0]
    children = Path(f"/proc/{zygote}/task/{zygote}/children")
    while not (found := children.read_text().split()) or len(_group(int(found[0]))) < 6:
        time.sleep(0.02)
    members = _group(int(found[0]))
    assert future.result().status is Status.TIMEOUT
    assert all(_ends(pid) for pid in members)
    assert open_sandbox.run(new_call("2")).value == "2"


@pytest.mark.parametrize("call", ["os.setsid()", "os.setpgid(0, 0)", "os.unshare(0x10000000)"])
def test_nothing_leaves_the_group_of_its_call(open_sandbox: Sandbox, call: str) -> None:
    code = "import ctypes, os\nos.unshare = lambda flags: ctypes.CDLL(None).unshare(flags) and os.setsid()"
    result = open_sandbox.run(
        new_call(
            f"{code}\npid = os.fork()\nif pid == 0:\n    try:\n        {call}\n    except PermissionError:\n"
            "        os._exit(7)\n    os._exit(0)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        )
    )
    assert result.value == "7"


def test_no_namespace_is_made_by_clone(open_sandbox: Sandbox) -> None:
    code = "import ctypes\nctypes.CDLL(None).syscall(56, 0x10000000 | 17, 0, 0, 0, 0)"
    if os.uname().machine != "x86_64":
        pytest.skip("the call number is that of x86_64")
    assert open_sandbox.run(new_call(code)).value == "-1"


@pytest.mark.parametrize("victim", ["fork server", "supervisor"])
def test_a_daemon_ends_when_its_fork_server_or_supervisor_is_killed(
    open_sandbox: Sandbox, victim: str
) -> None:
    session = open_sandbox.run(new_call(DAEMON, session="kept"))
    daemon = int(session.stdout)
    status = open_sandbox.started
    os.kill(status["zygotes"][0] if victim == "fork server" else status["supervisor"], signal.SIGKILL)
    assert _ends(daemon)


def test_closing_ends_a_daemon(open_sandbox: Sandbox) -> None:
    daemon = int(open_sandbox.run(new_call(DAEMON, session="kept")).stdout)
    open_sandbox.close()
    assert _ends(daemon)
