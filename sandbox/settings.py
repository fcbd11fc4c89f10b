"""`Settings` of a supervisor."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from typing import Self

from sandbox.layers import Layer, Level


class SettingsError(ValueError):
    """A setting is out of range; the message gives its name and the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one supervisor runs code. Plain values only, so that they can be sent as JSON."""

    workers: int = 2
    """CPU cores that the sandbox may use."""
    slots_per_worker: int = 4
    """Calls running at once per worker; more than 1, so that sleeping calls leave no core idle."""
    preload: tuple[str, ...] = ("numpy", "sympy")
    """Modules that fork servers import beforehand, by name; one tier per entry, each with all before it."""
    python_path: tuple[str, ...] = ()
    """Folders searched before the interpreter's own, and readable by calls: they contain preloaded modules."""
    queue_limit: int | None = None
    """Calls that may wait; one more is rejected with a retry-after. None: no limit."""
    min_isolation: Level = Level.FILES
    niceness: int = 10
    """Priority steps of running code below the caller, at its start."""
    decayed_niceness: int = 19
    """The same for code that has run for 0.1 s."""
    affinity: tuple[int, ...] | None = None
    """CPU cores that the supervisor, its fork servers and the code may run on; None: any."""
    deterministic: bool = True
    """Hide from the text shown what depends on the clock or on addresses."""
    allow_processes: bool = False
    """Code may start processes and programs; all end with its call. The CPU limit applies to each separately."""
    max_sessions: int = 256
    session_idle_s: float = 600.0
    """Seconds after which an unused session is evicted."""
    memory_low_bytes: int = 2**29
    """While less memory is available, idle sessions are evicted and new calls wait."""
    server_wait_s: float = 60.0
    """Calls that have waited this long while no fork server was ready end as lost."""
    tmp_bytes: int = 2**25
    """Size of the tmpfs that is the folder of a call, one per seat, where mounts are allowed."""
    tmp_dir: str = field(default_factory=tempfile.gettempdir)
    first_uid: int = 210_000
    """Slot k runs as user id first_uid + k (root only)."""
    python: str = field(default_factory=lambda: sys.executable)
    """Interpreter that runs the code."""
    disabled_layers: tuple[Layer, ...] = ()
    """Isolation layers left out, for tests that show the effect of each."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("workers", 1, 4096),
            ("slots_per_worker", 1, 1024),
            ("max_sessions", 1, 100_000),
            ("niceness", 0, 19),
            ("decayed_niceness", 0, 19),
            ("first_uid", 1000, 2**31),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise SettingsError(
                    f"sandbox setting {name} is {value!r}; give a whole number from {low} to {high}"
                )
        if self.queue_limit is not None and self.queue_limit < 1:
            raise SettingsError(
                f"sandbox setting queue_limit is {self.queue_limit!r}; give 1 or more, or None"
            )
        for module in self.preload:
            if not module.replace(".", "").replace("_", "").isalnum():
                raise SettingsError(f"sandbox setting preload has {module!r}, which is no module name")
        for folder in self.python_path:
            if not os.path.isdir(folder) or not os.path.isabs(folder):
                raise SettingsError(
                    f"sandbox setting python_path has {folder!r}; give absolute paths of existing folders"
                )

    @property
    def num_slots(self) -> int:
        """Return the number of calls running at once."""
        return self.workers * self.slots_per_worker

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        record = json.loads(text)
        record["preload"] = tuple(record["preload"])
        record["python_path"] = tuple(record["python_path"])
        record["affinity"] = tuple(record["affinity"]) if record["affinity"] is not None else None
        record["min_isolation"] = Level(record["min_isolation"])
        record["disabled_layers"] = tuple(Layer(layer) for layer in record["disabled_layers"])
        return cls(**record)
