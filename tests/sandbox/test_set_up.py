"""Before the set-up of its child no code of a call has run: no limit applies, and the child's end costs nothing.

Each test has a module that the fork server preloads: at the set-up of a child it takes one token from a folder, and
stops, kills or fails the child.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.tool_call import Status
from sandbox import Sandbox
from sandbox.server.failed_starts import MAX_STARTS
from tests.sandbox.conftest import message_of, new_call, state_of

HOOK = """
import os, signal
from sandbox.child import jail
enter = jail.Jail.enter
def enter_or_end(self, *arguments, **named):
    for name in sorted(os.listdir({folder!r})):
        os.unlink(os.path.join({folder!r}, name))
        if name.startswith("no room"):
            raise OSError(name.partition("-")[0])
        os.kill(os.getpid(), getattr(signal, name.partition("-")[0]))
        break
    enter(self, *arguments, **named)
jail.Jail.enter = enter_or_end
"""
BY_HOOK = "# slow_set_up\n"
"""Names the module, so that the call goes to the fork server that has it."""
KINDS = pytest.mark.parametrize("session", [None, "s"], ids=["call", "session"])


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    folder = tmp_path / "tokens"
    folder.mkdir()
    return folder


@pytest.fixture
def hooked(tmp_path: Path, tokens: Path) -> Iterator[Sandbox]:
    (tmp_path / "slow_set_up.py").write_text(HOOK.format(folder=str(tokens)))
    with Sandbox(
        workers=1, preload=("slow_set_up",), python_path=(str(tmp_path),), niceness=0, decayed_niceness=0
    ) as own:
        yield own


def put(tokens: Path, name: str, number: int = 1) -> None:
    for k in range(number):
        (tokens / f"{name}-{k}").touch()


def stopped_child(sandbox: Sandbox) -> int:
    """A child that has stopped itself before its set-up."""
    while True:
        for zygote in sandbox.started["zygotes"]:
            for child in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split():
                if state_of(int(child)) == "T":
                    return int(child)
        time.sleep(0.01)


@KINDS
def test_a_child_may_wait_for_its_set_up_past_the_wall_limit(
    hooked: Sandbox, tokens: Path, session: str | None
) -> None:
    put(tokens, "SIGSTOP")
    future = hooked.submit(new_call(BY_HOOK + "6 * 7", session=session, wall_s=0.4))
    child = stopped_child(hooked)
    time.sleep(1.5)
    assert not future.done()
    os.kill(child, signal.SIGCONT)
    result = future.result(60)
    assert (result.status, result.value) == (Status.OK, "42")


@KINDS
def test_a_call_whose_child_is_killed_before_its_set_up_starts_again(
    hooked: Sandbox, tokens: Path, session: str | None
) -> None:
    put(tokens, "SIGKILL", MAX_STARTS - 1)
    first = hooked.submit(new_call(BY_HOOK + "x = 1\nprint('once')", session=session))
    second = hooked.submit(new_call(BY_HOOK + "'x' in globals()", session=session))
    assert (first.result(60).status, first.result(60).stdout) == (Status.OK, "once\n")
    assert second.result(60).value == str(session is not None)  # the queue behind it kept its order
    assert not list(tokens.iterdir())


@pytest.mark.parametrize(
    ("end", "why"), [("SIGKILL", "it was killed"), ("no room", "sandbox: OSError: no room")]
)
@KINDS
def test_a_call_without_a_set_up_after_all_starts_is_lost(
    hooked: Sandbox, tokens: Path, session: str | None, end: str, why: str
) -> None:
    put(tokens, end, MAX_STARTS)
    result = hooked.run(new_call(BY_HOOK + "1", session=session))
    assert result.status is Status.LOST
    assert message_of(result) == (
        f"the process of the call could not be set up: {why} (start {MAX_STARTS} of {MAX_STARTS})"
    )
    behind = hooked.run(new_call(BY_HOOK + "1", session=session))
    assert behind.status is (Status.OK if session is None else Status.SESSION_LOST)
    status = hooked.status()
    assert (status["sessions"], status["running"], status["faults"]) == (0, 0, 0)


@KINDS
def test_a_call_whose_fork_server_dies_before_its_set_up_starts_again(
    hooked: Sandbox, tokens: Path, session: str | None
) -> None:
    put(tokens, "SIGSTOP")
    future = hooked.submit(new_call(BY_HOOK + "6 * 7", session=session))
    child = stopped_child(hooked)  # it holds the line of its fork server open
    os.kill(int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    assert future.result(120).value == "42"


def test_a_session_closed_before_its_set_up_is_reported_as_closed(hooked: Sandbox, tokens: Path) -> None:
    put(tokens, "SIGSTOP")
    future = hooked.submit(new_call("1", session="closed"))
    stopped_child(hooked)
    hooked.close_session("closed")
    result = future.result(60)
    assert result.status is Status.SESSION_LOST
    assert message_of(result) == "session is gone: it was closed"


def test_a_call_cancelled_before_its_set_up_does_not_start_again(hooked: Sandbox, tokens: Path) -> None:
    put(tokens, "SIGSTOP")
    future = hooked.submit(new_call(BY_HOOK + "1", id="withdrawn"))
    stopped_child(hooked)
    hooked.cancel("withdrawn")
    assert future.result(60).status is Status.CANCELLED


def test_no_code_can_make_its_call_start_again(hooked: Sandbox) -> None:
    """The mark is set before the first line, and stays."""
    for session in (None, "s"):
        code = BY_HOOK + "import os\nprint(1, flush=True)\nos._exit(70)"
        assert hooked.run(new_call(code, session=session)).status is Status.CRASH
