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
    """A setting is out of range; the message has its name and the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one supervisor runs code. Plain values only, so that they travel as JSON."""

    workers: int = 2
    """CPU cores the sandbox may fill."""
    slots_per_worker: int = 4
    """Calls running at once per worker; more than 1, so that sleeping calls leave no core idle."""
    preload: tuple[str, ...] = ("numpy", "sympy")
    """Modules that fork servers import beforehand, by name; one tier per entry, each with all before it."""
    python_path: tuple[str, ...] = ()
    """Folders searched before the interpreter's own, and readable by calls: where a preloaded module lies."""
    queue_limit: int | None = None
    """Calls waiting; one more is rejected with a retry-after. None: no limit."""
    min_isolation: Level = Level.FILES
    niceness: int = 10
    """Steps of priority that running code stands below the caller at its start."""
    decayed_niceness: int = 19
    """The same of code that has run for 0.1 s."""
    affinity: tuple[int, ...] | None = None
    """CPU cores that the supervisor, its fork servers and the code may run on; None: any."""
    deterministic: bool = True
    """Hide from the text shown what depends on the clock or on addresses."""
    allow_processes: bool = False
    """Code may start processes and programs; they end with its call, to the last. CPU limits then count each apart."""
    max_sessions: int = 256
    session_idle_s: float = 600.0
    """A session untouched for longer is evicted."""
    memory_low_bytes: int = 2**29
    """While the machine has less memory available, idle sessions are evicted and new calls wait."""
    server_wait_s: float = 60.0
    """Calls that have waited while no fork server was ready for so long end as lost."""
    tmp_bytes: int = 2**25
    """Size of the tmpfs that is the folder of a call, where one can be mounted: one for each seat."""
    tmp_dir: str = field(default_factory=tempfile.gettempdir)
    first_uid: int = 210_000
    """Slot k runs as user id first_uid + k (root only)."""
    python: str = field(default_factory=lambda: sys.executable)
    """Interpreter that runs the code."""
    disabled_layers: tuple[Layer, ...] = ()
    """Isolation layers left out: for tests that show what each is for."""

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
        """Calls running at once."""
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
