"""`Busy` and `versions`: what decides a speed besides the code: other processes, processor, kernel and packages."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("torch", "transformers", "numpy", "trl")


@dataclass(frozen=True, slots=True)
class Busy:
    """CPU seconds of the machine and of this program's children, at one moment."""

    clock_s: float
    machine_s: float
    children_s: float

    @classmethod
    def now(cls) -> Busy:
        ticks = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, ticks)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(
            time.monotonic(),
            (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"),
            children.ru_utime + children.ru_stime,
        )

    def cores_of_others(self, before: Busy) -> float:
        """Return the cores that other processes used since `before`, on average.

        >>> Busy(10.0, 15.0, 10.0).cores_of_others(Busy(0.0, 0.0, 0.0))
        0.5
        """
        own = self.children_s - before.children_s
        return max(0.0, (self.machine_s - before.machine_s - own) / (self.clock_s - before.clock_s))


def versions() -> dict[str, str]:
    """Return those of the interpreter, the kernel and the packages that decide a speed; the processor too."""
    found = {"python": platform.python_version(), "kernel": platform.release(), "processor": processor()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def processor() -> str:
    """Return the number and the name of the processors."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()
