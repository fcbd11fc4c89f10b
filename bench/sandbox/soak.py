"""`soak`: growth of descriptors, processes, files and memory over many calls."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from bench.sandbox.burst import own_rss_bytes, rss_bytes
from bench.sandbox.race import CALM, measure
from bench.sandbox.workload import mix
from sandbox import Sandbox


def soak(*, size: int, workers: int, samples: int = 11) -> dict[str, Any]:
    """Run `size` calls of the standard mix without sympy; count open, left and resident resources after each tenth.

    Args:
        size: calls.
        workers: cores of the sandbox.
        samples: readings, the first before any call.
    """
    step = max(1, size // (samples - 1))
    programs = [program for program in mix(2 * step, loops=False) if program.kind != "sympy"]
    programs = (programs * 2)[:step]
    rows: list[dict[str, int]] = []
    faults = 0
    start = time.perf_counter()
    with Sandbox(workers=workers, slots_per_worker=max(1, 16 // workers)) as sandbox:
        measure(sandbox, programs[:500], in_flight=32, limits=CALM)
        rows.append(reading(sandbox))
        for _ in range(samples - 1):
            score = measure(sandbox, programs, in_flight=32, limits=CALM)
            faults += score.num_wrong + score.num_lost + score.num_late
            rows.append(reading(sandbox))
    return {
        "calls": step * (samples - 1),
        "faults": faults,
        "seconds": time.perf_counter() - start,
        "readings": rows,
        "growth": {key: rows[-1][key] - rows[0][key] for key in rows[0]},
    }


def reading(sandbox: Sandbox) -> dict[str, int]:
    """Resources that a sandbox holds, measured from outside."""
    status = sandbox.status()
    pids = [int(status["supervisor"]), *map(int, status["zygotes"])]
    return {
        "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        "client_descriptors": len(os.listdir("/proc/self/fd")),
        "zombies": num_zombies(pids),
        "shared_memory_files": len(os.listdir("/dev/shm")),
        "temporary_files": _num_files(Path(f"/proc/{pids[0]}/root{status['tmp_root']}")),
        "supervisor_rss_bytes": rss_bytes(pids[0]),
        "fork_servers_rss_bytes": sum(rss_bytes(pid) for pid in pids[1:]),
        "client_rss_bytes": own_rss_bytes(),
    }


def num_zombies(parents: list[int]) -> int:
    """Dead children that `parents`, or this process, have not reaped."""
    owners = {str(pid) for pid in [*parents, os.getpid()]}
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                found += state == "Z" and parent in owners
    return found


def _num_files(root: Path) -> int:
    """Files and folders below the seats' folders, without the system that is mounted into their views."""
    device, found = root.stat().st_dev, 0
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if os.lstat(os.path.join(place, name)).st_dev == device]
        found += len(names) + len(folders)
    return found - sum(1 for entry in root.iterdir() if entry.is_dir() and entry.stat().st_dev == device)
