"""Machines with fewer features: the level and the missing layers are named, and below the minimum nothing runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import Sandbox, SandboxError
from sandbox.layers import IsolationReport, Layer, LayerState, Level
from sandbox.server import layer_probe
from sandbox.server import layer_trial as trial
from sandbox.server.start_up import StartError, check_level
from tests.sandbox.conftest import new_call

FULL = """
import sys
from sandbox.child import kernel
from sandbox import Sandbox, SandboxError
kernel.enter_mount_namespace()
kernel.mount_tmpfs(sys.argv[1], 4096, 1)
try:
    Sandbox(workers=1, preload=(), tmp_dir=sys.argv[1])
except SandboxError as error:
    print(error)
"""


def a_report(**missing: str) -> IsolationReport:
    """All layers in use but those named, each with the reason."""
    states = tuple(
        LayerState(layer=layer, used=layer not in missing, why=missing.get(layer, "in use"))
        for layer in Layer
    )
    return IsolationReport(states=states, landlock_abi=6)


@pytest.mark.parametrize(("abi", "message"), [(0, "no Landlock"), (1, "ABI 3"), (2, "ABI 3")])
def test_a_kernel_without_landlock_or_with_an_older_one_reaches_no_files(abi: int, message: str) -> None:
    why = layer_probe._probe_landlock(abi)
    assert message in why
    report = a_report(landlock=why)
    assert report.level is Level.SYSCALLS
    with pytest.raises(
        StartError, match=r"'files' is required, this machine gives 'syscalls'; missing: landlock"
    ):
        check_level(report, Level.FILES)


def test_without_user_namespaces_files_are_reachable_and_the_lack_is_named() -> None:
    why = "mounts are not allowed here for this user (unshare: Operation not permitted)"
    report = a_report(private_root=why, bounded_tmp=why)
    assert report.level is Level.FILES
    assert report.missing_for(Level.FILES) == ""
    assert f"private_root ({why})" in report.missing_for(Level.PATHS)


def test_a_layer_that_an_attack_gets_through_counts_as_missing() -> None:
    report = trial.judge(a_report(), {Layer.SECCOMP: "the code forked"})
    assert report.level is Level.LIMITS
    assert "tried at the start, and the code forked" in report.missing_for(Level.FILES)


def test_the_trial_detects_each_missing_layer() -> None:
    """Its program runs as a call of a sandbox without these layers that claims to use them."""
    absent = ("seccomp", "landlock", "private_root", "bounded_tmp", "rlimits", "signal_scope", "slot_uid")
    orders = {
        "layers": absent,
        "uid": 1,
        "memory_bytes": 2**26,
        "allow_processes": False,
        "tmp_bytes": 2**24,
        "unshare": 272,
        "foreign": ["/etc/passwd"],
    }
    disabled = (*absent, "signal_filter", "no_capabilities")
    with Sandbox(workers=1, preload=(), min_isolation="none", disabled_layers=disabled) as own:
        result = own.run(new_call(trial._PROGRAM, stdin=json.dumps(orders)))
    assert set(absent) <= set(json.loads(result.stdout))


@pytest.mark.parametrize("python", ["/nonexistent/python3", "/etc/hostname"])
def test_an_interpreter_that_cannot_be_started_is_named(python: str) -> None:
    with pytest.raises(SandboxError, match=python):
        Sandbox(workers=1, preload=(), python=python)


def test_an_unusable_folder_for_the_calls_is_named_with_the_remedy() -> None:
    with pytest.raises(SandboxError, match=r"cannot be made in /proc/nowhere: .*set tmp_dir"):
        Sandbox(workers=1, preload=(), tmp_dir="/proc/nowhere")


def test_a_full_folder_for_the_calls_is_named_with_the_remedy(tmp_path: Path, project_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr:
        pytest.skip("needs a mount namespace")
    assert "No space left on device; free room there, or set tmp_dir" in done.stdout, done.stderr
