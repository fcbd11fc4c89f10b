"""`ToolCall` and `ToolResult`: the input and the output of the sandbox.

Every accepted call ends in exactly one ToolResult. `sandbox.Sandbox` runs calls. JSON uses exactly these field names
(`to_json`, `from_json`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self


class Status(StrEnum):
    """How a call ended. The code causes the first six; the infrastructure causes the last four."""

    OK = "ok"
    ERROR = "error"
    """The code raised; `error` holds the exception."""
    TIMEOUT = "timeout"
    """CPU or wall limit reached."""
    MEMORY = "memory"
    """Memory limit reached (MemoryError, or killed at the limit)."""
    OUTPUT_LIMIT = "output_limit"
    """The code was stopped because of its amount of output."""
    CRASH = "crash"
    """The interpreter died: segmentation fault, os._exit, stack overflow."""
    CANCELLED = "cancelled"
    """The caller withdrew the call."""
    SESSION_LOST = "session_lost"
    """The infrastructure lost the interpreter of this session. If the code ended it, the status is CRASH."""
    REJECTED = "rejected"
    """Never started: the queue was full or the call malformed."""
    LOST = "lost"
    """A process of the sandbox died while the call ran; the call may have finished."""

    @property
    def is_infrastructure(self) -> bool:
        """Return whether the infrastructure caused the end: never a score, never shown to the model."""
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = frozenset({Status.CANCELLED, Status.SESSION_LOST, Status.REJECTED, Status.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one call."""

    wall_s: float = 20.0
    """Seconds from start to forced end. In deterministic mode at least 10 x `cpu_s`."""
    cpu_s: float = 2.0
    """CPU seconds of the code itself; the start of the interpreter is not charged."""
    memory_bytes: int = 512 * 2**20
    """Address space that the code may add to that of its interpreter."""
    output_bytes: int = 16 * 2**10
    """Bytes kept of stdout, of stderr and of the value, each: half from the head, half from the tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One piece of Python to run."""

    id: str
    """Unique among calls in flight; the result has the same id."""
    code: str
    stdin: str = ""
    session: str | None = None
    """None: a fresh interpreter (the paper's tool). A name: the persistent interpreter of that trajectory."""
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    """Fixes the random streams of the code; derive it from (trajectory, call)."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        return cls(**{**record, "limits": Limits(**record.get("limits", {}))})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """The exception that ended the code."""

    type: str
    message: str
    traceback: str
    """Frames of the user's code only, with the user's line numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """End and output of one call."""

    id: str
    status: Status
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    """repr of the last expression; None if there is none or it is None."""
    error: ToolError | None = None
    wall_s: float = 0.0
    """Seconds from the start of the code to its end."""
    cpu_s: float = 0.0
    queue_s: float = 0.0
    """Seconds between acceptance and start."""
    max_rss_bytes: int = 0
    dropped_bytes: int = 0
    """Output bytes that were cut from stdout, stderr and value together."""

    def without_clock(self) -> ToolResult:
        """Return the result with every measured quantity 0, so that equal behaviour gives equal bytes."""
        return replace(self, wall_s=0.0, cpu_s=0.0, queue_s=0.0, max_rss_bytes=0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        error = record.get("error")
        return cls(
            **{
                **record,
                "status": Status(record["status"]),
                "error": ToolError(**error) if error else None,
            }
        )
