"""`Layer` and `Level`: barriers between the code and the machine, and the sets of barriers that suffice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Layer(StrEnum):
    """One independent barrier."""

    SLOT_UID = "slot_uid"
    """Each running call has its own user id (root only)."""
    NO_CAPABILITIES = "no_capabilities"
    """A call that must remain root has no root powers."""
    RLIMITS = "rlimits"
    NO_NEW_PRIVS = "no_new_privs"
    SECCOMP = "seccomp"
    LANDLOCK = "landlock"
    """Access only to the files of the interpreter and to the call's own folder."""
    SIGNAL_SCOPE = "signal_scope"
    """No signals to processes outside (Landlock, kernel >= 6.12)."""
    SIGNAL_FILTER = "signal_filter"
    """No signals at all; used where neither a slot uid nor a signal scope is available."""
    PARENT_DEATH = "parent_death"
    """All processes of the sandbox die with the supervisor."""
    PRIVATE_ROOT = "private_root"
    """The only paths are those of the interpreter, read only, and the call's own folder (mounts allowed)."""
    BOUNDED_TMP = "bounded_tmp"
    """The folder of each call is its own tmpfs, with a limit on bytes and on files (mounts allowed)."""
    FIXED_ADDRESSES = "fixed_addresses"
    """No address randomisation: every start maps memory alike."""
    HUGE_PAGES = "huge_pages"
    """Fewer page-table entries to copy per fork. Speed, not safety."""
    EAGER_PAGES = "eager_pages"
    """The fork copies what every call writes, without a fault per page. Speed, not safety."""


class Level(StrEnum):
    """How much isolation is in force; each level includes the ones before."""

    NONE = "none"
    LIMITS = "limits"
    """Resource limits and death with the parent."""
    SYSCALLS = "syscalls"
    """No processes, no sockets, no privileges."""
    FILES = "files"
    """Own folder only, and calls cannot touch each other."""
    PATHS = "paths"
    """No other path can be named, and no call can fill the folders of the others."""


_NEEDED: dict[Level, tuple[Layer, ...]] = {
    Level.NONE: (),
    Level.LIMITS: (Layer.RLIMITS, Layer.PARENT_DEATH),
    Level.SYSCALLS: (Layer.NO_NEW_PRIVS, Layer.SECCOMP),
    Level.FILES: (Layer.LANDLOCK,),
    Level.PATHS: (Layer.PRIVATE_ROOT, Layer.BOUNDED_TMP),
}
_SEPARATION = (Layer.SLOT_UID, Layer.SIGNAL_SCOPE, Layer.SIGNAL_FILTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerState:
    """Whether a layer is in use, with the reason if it is not."""

    layer: Layer
    used: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationReport:
    """The result of a probe."""

    states: tuple[LayerState, ...]
    landlock_abi: int

    @property
    def used(self) -> frozenset[Layer]:
        return frozenset(state.layer for state in self.states if state.used)

    @property
    def level(self) -> Level:
        """Return the highest level whose layers are all in use."""
        reached = Level.NONE
        for level in Level:
            if not all(layer in self.used for layer in _NEEDED[level]):
                break
            if level is Level.FILES and not self.used.intersection(_SEPARATION):
                break
            reached = level
        return reached

    def missing_for(self, minimum: Level) -> str:
        """Describe what is missing for `minimum`; empty when nothing is."""
        levels = list(Level)
        if levels.index(self.level) >= levels.index(minimum):
            return ""
        required = {layer for level in levels[: levels.index(minimum) + 1] for layer in _NEEDED[level]}
        lacking = [f"{s.layer} ({s.why})" for s in self.states if s.layer in required and not s.used]
        if minimum in (Level.FILES, Level.PATHS) and not self.used.intersection(_SEPARATION):
            lacking.append("one of " + ", ".join(_SEPARATION))
        return "; ".join(lacking)
