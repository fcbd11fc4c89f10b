"""Fixtures: one sandbox for tests that only send calls. Tests that kill or configure one start their own."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from records.tool_call import Limits, ToolCall, ToolResult
from sandbox import Sandbox

_ids = itertools.count()
SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = 65534
STUBBORN = "def spin():\n    while True: sum(range(99))\nwhile True:\n    try: spin()\n    except BaseException: pass"
"""The loop is in a function: Python may raise a signal's exception at the end of a loop, just outside its `try`."""
PACKAGES = ("numpy", "numpy.libs", "sympy", "mpmath")


def new_call(code: str, *, cpu_s: float = 10.0, wall_s: float = 120.0, **fields: object) -> ToolCall:
    """A call with an id of its own, and limits that a busy machine does not reach."""
    limits = Limits(cpu_s=cpu_s, wall_s=wall_s)
    return ToolCall(**{"id": f"call-{next(_ids)}", "code": code, "limits": limits, **fields})  # type: ignore[arg-type]


def small_sandbox(**settings: Any) -> Sandbox:
    """One worker without preloads at normal priority, unless the settings differ."""
    return Sandbox(**{"workers": 1, "preload": (), "niceness": 0, "decayed_niceness": 0, **settings})


def message_of(result: ToolResult) -> str:
    """Error message of a result, which must have one."""
    assert result.error is not None
    return result.error.message


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


def state_of(pid: int) -> str:
    """State letter of a process, as /proc gives it: `T` stopped, `Z` a zombie."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def own_kb(pid: int) -> int:
    """Memory that a process alone has written, and that is free without it."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.split("\n") if line.startswith("Private_Dirty:"))


@pytest.fixture(scope="session")
def open_python(project_root: Path) -> Iterator[Path]:
    """An interpreter in a world-readable folder: a venv of the system's Python with links to the packages."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become other users")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = [SYSTEM_PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    if not Path(SYSTEM_PYTHON).exists() or subprocess.check_output(asked, text=True).strip() != version:
        pytest.skip(f"needs {SYSTEM_PYTHON} of version {version}, whose files every user may read")
    folder = Path(tempfile.mkdtemp(prefix="open-python-"))
    folder.chmod(0o755)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    site = folder / "venv" / "lib" / f"python{version}" / "site-packages"
    installed = Path(sys.prefix) / "lib" / f"python{version}" / "site-packages"
    for name in PACKAGES:
        shutil.copytree(installed / name, site / name, copy_function=_link_or_copy)
    for name in ("records", "config", "sandbox", "tests"):
        if name != "tests":
            shutil.copytree(project_root / name, folder / "project" / name)
    shutil.copytree(project_root / "tests" / "sandbox", folder / "project" / "tests" / "sandbox")
    yield folder
    shutil.rmtree(folder)


def run_as(folder: Path, user: int, module: str, settings: dict[str, Any]) -> dict[str, Any]:
    """JSON output of a program of these tests, run as `user` with the interpreter of `open_python`.

    `left` in it names what the program left in its temporary folder.
    """
    scratch = Path(tempfile.mkdtemp(prefix="tmp-", dir=folder))
    os.chown(scratch, user, user)
    orders = json.dumps({"tmp_dir": str(scratch), **settings})
    done = subprocess.run(
        [str(folder / "venv" / "bin" / "python"), "-m", module, orders],
        cwd=folder / "project", user=user, group=user, extra_groups=[], capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"left": os.listdir(scratch)}


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
