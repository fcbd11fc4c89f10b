"""`reap` and `sweep`: end processes that the code started and left behind, with `allow_processes`.

While a call runs, it and its descendants share one process group, which they cannot leave (setsid and setpgid are
refused), so one killpg ends the whole tree. A process that loses its parent becomes a child of the supervisor, which
reaps it. If the supervisor itself is killed, the client finds these processes by what only they have: the mount
namespace of that supervisor, or its user ids and its folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


def _children() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    return []


def kill_strays(keep: Collection[int]) -> None:
    """Kill all children of this process except `keep`, after the death of their fork server."""
    for pid in _children():
        if pid not in keep:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def reap(keep: Collection[int]) -> None:
    """Reap dead children except `keep`; kill those whose call is over: the leader of their process group is gone."""
    for pid in _children():
        if pid in keep:
            continue
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0 and not _lives(os.getpgid(pid)):
                os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def end_all() -> None:
    """Kill and reap until this process has no child left. A dying process may leave children."""
    with contextlib.suppress(ChildProcessError):
        while True:
            kill_strays(())
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.002)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What identifies the processes of one supervisor."""

    tmp_root: str
    mount_namespace: int
    """Mount namespace of the supervisor; 0: it has none. Its number stays reserved while a process holds it open."""
    first_uid: int
    num_uids: int
    """User ids of its calls alone; 0: its calls have none."""

    def fit(self, entry: Path) -> bool:
        """Return whether the process of a folder of /proc matches."""
        if self.mount_namespace:
            return (entry / "ns" / "mnt").stat().st_ino == self.mount_namespace
        is_of_slot = self.first_uid <= entry.stat().st_uid < self.first_uid + self.num_uids
        return is_of_slot or os.readlink(entry / "cwd").startswith(f"{self.tmp_root}/")


def sweep(traces: Traces) -> None:
    """Kill the processes that match the traces of a dead supervisor, and no others."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if traces.fit(entry):
                os.kill(int(entry.name), signal.SIGKILL)
