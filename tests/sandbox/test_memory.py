"""Data that pass through the supervisor do not stay in its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from records.tool_call import Status
from tests.sandbox.conftest import new_call, own_kb, small_sandbox

BETWEEN = """
from sandbox.child import kernel
from tests.sandbox.conftest import own_kb
import os
if {is_set}:
    kernel.map_large_blocks(2**18)
largest = b"x" * 2**24
del largest
before = own_kb(os.getpid())
large, small = [], []
for _ in range(40):
    large.append(b"x" * 2**20)
    small.append(b"x" * 50_000)
large.clear()
print(own_kb(os.getpid()) - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_large_blocks_are_freed_also_between_small_ones(project_root: Path) -> None:
    command = [sys.executable, "-c", BETWEEN.format(is_set=True)]
    stayed_kb = int(subprocess.check_output(command, cwd=project_root, text=True))
    assert stayed_kb < 4_000


def test_large_inputs_are_freed_with_their_calls() -> None:
    with small_sandbox() as own:
        supervisor = own.started["supervisor"]
        own.run_many(new_call(f"print({n})") for n in range(100))
        before = own_kb(supervisor)
        for _ in range(3):
            results = own.run_many(
                new_call(f"print({n} * len(input()))", stdin="x" * (10**6 if n % 4 == 0 else 10))
                for n in range(60)
            )
            assert {result.status for result in results} == {Status.OK}
        assert own_kb(supervisor) < before + 4_000
