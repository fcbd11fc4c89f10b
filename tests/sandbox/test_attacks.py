"""No attack on the sandbox as a whole succeeds, in any mode, nor costs an honest call its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from records.tool_call import Status
from sandbox import Sandbox
from tests.sandbox.conftest import NOBODY, new_call, run_as

pytestmark = [pytest.mark.hostile, pytest.mark.slow]
NO_MOUNTS = ["private_root", "bounded_tmp"]


@pytest.mark.parametrize(
    ("user", "disabled", "uses"),
    [
        (0, [], "slot_uid"),
        (0, ["slot_uid"], "no_capabilities"),
        (NOBODY, [], "rlimits"),
        (0, ["slot_uid", *NO_MOUNTS], "no_capabilities"),
        (NOBODY, NO_MOUNTS, "rlimits"),
    ],
    ids=[
        "root with uids",
        "root without",
        "ordinary user",
        "root without mounts",
        "ordinary user without mounts",
    ],
)
def test_no_attack_gets_through(open_python: Path, user: int, disabled: list[str], uses: str) -> None:
    found = run_as(open_python, user, "tests.sandbox.run_attacks", {"disabled_layers": disabled})
    assert found["faults"] == {}
    assert found["left"] == []
    assert uses in found["layers"]


def test_closing_a_sandbox_ends_its_own_processes_only() -> None:
    """Two supervisors must not share user ids: one would end the processes of the other."""
    settings: dict[str, Any] = {"workers": 1, "preload": (), "niceness": 0, "decayed_niceness": 0}
    with Sandbox(**settings) as other:
        running = other.submit(new_call("import time\ntime.sleep(4)\n7"))
        with Sandbox(**settings, allow_processes=True) as own:
            own.run(new_call("import os, time\nif os.fork() == 0: time.sleep(600)"))
        assert (running.result().status, running.result().value) == (Status.OK, "7")
        uids = {sandbox.run(new_call("import os\nos.getuid()")).value for sandbox in (other,)}
    assert len(uids) == 1


def test_two_sandboxes_never_share_user_ids() -> None:
    with Sandbox(workers=1, preload=()) as one, Sandbox(workers=1, preload=()) as two:
        if "slot_uid" not in {state["layer"] for state in one.started["states"] if state["used"]}:
            pytest.skip("needs a user id per call")
        first, second = (
            {sandbox.run(new_call("import os\nos.getuid()")).value for _ in range(8)}
            for sandbox in (one, two)
        )
    assert not first & second
