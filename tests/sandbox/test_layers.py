"""Each layer matters: without it, an attack succeeds that otherwise fails."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox import Sandbox, SandboxError

pytestmark = pytest.mark.hostile

FORK = "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)[1]"
SIGNAL_PARENT = "import os\nos.kill(os.getppid(), 0)"
MANY_THREADS = """
import threading
threading.stack_size(2**16)
gate = threading.Event()
threads = [threading.Thread(target=gate.wait) for _ in range(100)]
try:
    for thread in threads: thread.start()
finally:
    gate.set()
len(threads)
"""
SYSTEM_PYTHON = "/usr/bin/python3"
FILL_FOLDER = "for k in range(6):\n    with open(f'f{k}', 'wb') as f: f.write(b'x' * 4_000_000)\n'filled'"


def _run(code: str, without: Sequence[str] = (), **settings: object) -> ToolResult:
    limits = Limits(cpu_s=10, wall_s=120)
    with Sandbox(
        workers=1,
        preload=(),
        niceness=0,
        decayed_niceness=0,
        min_isolation="none",
        disabled_layers=without,
        **settings,  # type: ignore[arg-type]
    ) as sandbox:
        return sandbox.run(ToolCall(id="attack", code=code, limits=limits))


@cache
def _layers_without(disabled: tuple[str, ...]) -> list[str]:
    with Sandbox(workers=1, preload=(), min_isolation="none", disabled_layers=disabled) as sandbox:
        return [state["layer"] for state in sandbox.started["states"] if state["used"]]


@pytest.fixture(scope="module")
def used_layers() -> list[str]:
    return _layers_without(())


def _need(used_layers: list[str], layer: str) -> None:
    if layer not in used_layers:
        pytest.skip(f"this machine does not offer {layer}")


@pytest.mark.parametrize(
    ("layers", "code", "value"),
    [
        (("seccomp",), FORK, "0"),
        (("landlock", "private_root"), "len(open('/etc/passwd').read()) > 0", "True"),
        (("private_root",), "import os\nos.stat('/etc/passwd').st_size > 0", "True"),
        (("rlimits",), "len(bytearray(700 * 2**20))", str(700 * 2**20)),
        (("signal_scope", "signal_filter", "slot_uid"), SIGNAL_PARENT, None),
        (("no_capabilities", "slot_uid"), "import os\nos.setuid(12345)\nos.getuid()", "12345"),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) else "",
)
def test_an_attack_succeeds_only_without_its_layer(
    layers: tuple[str, ...], code: str, value: str | None
) -> None:
    others = layers[1:]  # a second barrier before the same attack; with it gone the first one holds alone
    _need(_layers_without(others), layers[0])
    assert _run(code, without=others).status in (Status.ERROR, Status.MEMORY)
    result = _run(code, without=layers)
    assert (result.status, result.value) == (Status.OK, value)


@pytest.fixture(scope="module")
def readable_python() -> Iterator[str]:
    """An interpreter that any user can read: a venv of the system's Python in a folder open to all."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = [SYSTEM_PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    if os.geteuid() != 0:
        pytest.skip("a user id per call needs root")
    if not Path(SYSTEM_PYTHON).exists() or subprocess.check_output(asked, text=True).strip() != version:
        pytest.skip(f"needs {SYSTEM_PYTHON} of version {version}, whose files every user may read")
    folder = Path(tempfile.mkdtemp(prefix="readable-python-"))
    folder.chmod(0o755)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    yield str(folder / "venv" / "bin" / "python")
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("code", "without", "value"),
    [
        (MANY_THREADS, ("slot_uid",), "100"),
        (SIGNAL_PARENT, ("slot_uid", "signal_scope", "signal_filter"), None),
    ],
    ids=["threads", "signal"],
)
def test_an_attack_succeeds_only_without_a_user_id_per_call(
    readable_python: str, code: str, without: tuple[str, ...], value: str | None
) -> None:
    others = without[1:]  # signals have a second barrier; only with both gone do they pass
    assert _run(code, without=others, python=readable_python).status is Status.ERROR
    result = _run(code, without=without, python=readable_python)
    assert (result.status, result.value) == (Status.OK, value)


def test_a_folder_is_bounded_only_with_its_tmpfs(used_layers: list[str]) -> None:
    _need(used_layers, "bounded_tmp")
    bounded = _run(FILL_FOLDER, tmp_bytes=8_000_000)
    assert bounded.error is not None
    assert "No space left" in bounded.error.message
    assert _run(FILL_FOLDER, without=("bounded_tmp",), tmp_bytes=8_000_000).value == "'filled'"


def test_addresses_repeat_from_start_to_start_only_without_randomisation(used_layers: list[str]) -> None:
    """The interpreter itself, not a new object: the state of the heap depends on the start."""
    _need(used_layers, "fixed_addresses")
    assert len({_run("id(None)").value for _ in range(2)}) == 1
    assert len({_run("id(None)", without=("fixed_addresses",)).value for _ in range(3)}) > 1


def test_without_no_new_privs_an_ordinary_process_cannot_be_locked_at_all(used_layers: list[str]) -> None:
    _need(used_layers, "no_new_privs")
    with pytest.raises(SandboxError):
        Sandbox(workers=1, preload=(), disabled_layers=("no_new_privs",))


@pytest.mark.parametrize(
    ("without", "survives"), [((), False), (("parent_death",), True)], ids=["with", "without"]
)
def test_code_survives_its_parents_only_without_the_death_signal(
    without: tuple[str, ...], survives: bool
) -> None:
    sandbox = Sandbox(workers=1, preload=(), min_isolation="none", disabled_layers=without, niceness=0)
    sandbox.submit(ToolCall(id="sleeper", code="import time\ntime.sleep(600)", limits=Limits(wall_s=900)))
    zygote = sandbox.started["zygotes"][0]
    children = Path(f"/proc/{zygote}/task/{zygote}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.05)
    child = int(found[0])
    os.kill(sandbox.started["supervisor"], signal.SIGKILL)
    time.sleep(1.0)
    lives = Path(f"/proc/{child}").exists() and ") Z" not in Path(f"/proc/{child}/stat").read_text()
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    sandbox.close()
    assert lives == survives
