"""One sandbox for the tests that only send it calls; tests that kill or configure start their own."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.client import Sandbox
from sandbox.records import Limits, ToolCall, ToolResult

_ids = itertools.count()


def new_call(code: str, *, cpu_s: float = 10.0, wall_s: float = 120.0, **fields: object) -> ToolCall:
    """A call with an id of its own, and limits that a busy machine does not reach."""
    limits = Limits(cpu_s=cpu_s, wall_s=wall_s)
    return ToolCall(**{"id": f"call-{next(_ids)}", "code": code, "limits": limits, **fields})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, niceness=0, decayed_niceness=0) as shared:
        yield shared


@pytest.fixture
def run(sandbox: Sandbox) -> Callable[..., ToolResult]:
    """Run code in the shared sandbox."""

    def run_code(code: str, **fields: object) -> ToolResult:
        return sandbox.run(new_call(code, **fields))  # type: ignore[arg-type]

    return run_code


def start_node(
    folder: Path, name: str, root: Path, *options: str, secret: bytes
) -> tuple[subprocess.Popen[bytes], str]:
    """A node daemon of its own, and its address once it accepts calls."""
    (folder / "secret").write_bytes(secret)
    place = folder / name
    command = [sys.executable, "-m", "sandbox", "serve", "--secret-file", str(folder / "secret")]
    command += ["--port", "0", "--announce", str(place), "--preload", "", "--workers", "1", *options]
    process = subprocess.Popen(command, cwd=root)
    while not (place.exists() and place.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    return process, place.read_text()
