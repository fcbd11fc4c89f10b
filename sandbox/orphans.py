"""Processes that the code started and left behind. Only where `allow_processes` lets it start any.

While a call runs, it and all it starts share one process group that they cannot leave (setsid and setpgid are
refused), so one killpg ends the whole tree. What loses its parent becomes a child of the supervisor, which is their
reaper. Should the supervisor itself be killed, the client looks for them by user id and by folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path


def _children() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    return []


def kill_strays(keep: Collection[int]) -> None:
    """Kill all children of this process but `keep`: their fork server has died."""
    for pid in _children():
        if pid not in keep:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def reap(keep: Collection[int]) -> None:
    """Reap dead children but `keep`; kill those whose call is over: its process, leader of the group, is gone."""
    for pid in _children():
        if pid in keep:
            continue
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0 and not _lives(os.getpgid(pid)):
                os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def end_all() -> None:
    """Kill and reap until this process has no child left. What dies may hand us children of its own."""
    with contextlib.suppress(ChildProcessError):
        while True:
            kill_strays(())
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.002)


def sweep(tmp_root: str, uids: range) -> None:
    """After the death of a supervisor: kill whatever runs as one of its slot users or in one of its folders."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid in uids or os.readlink(entry / "cwd").startswith(f"{tmp_root}/"):
                os.kill(int(entry.name), signal.SIGKILL)
