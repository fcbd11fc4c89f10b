"""`Jail`: isolates the code. `lock_server` binds the fork server once, `enter` binds each child."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from dataclasses import dataclass, field

from sandbox.child import kernel, seccomp
from sandbox.child import root_view as view
from sandbox.layers import Layer
from sandbox.places import Places

MAX_FILE_BYTES = 2**22
MAX_DESCRIPTORS = 128
MAX_THREADS = 64
_ANY_SEAT = -1
_FOLDER_RIGHTS = kernel.LL_READ_FILE | kernel.LL_READ_DIR
_NOT_IN_TMP = kernel.LL_EXECUTE | kernel.LL_MAKE_CHAR | kernel.LL_MAKE_BLOCK | kernel.LL_MAKE_SOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class JailPlan:
    """Isolation that the supervisor has chosen."""

    layers: frozenset[Layer]
    landlock_abi: int
    first_uid: int
    places: Places
    readable: tuple[str, ...]
    allow_processes: bool = False

    @property
    def is_private(self) -> bool:
        """Return whether each call has a root folder of its own."""
        return Layer.PRIVATE_ROOT in self.layers


@dataclass(slots=True)
class Jail:
    """The prepared filters and rule sets of one fork server."""

    plan: JailPlan
    readable_fds: list[tuple[int, int]] = field(default_factory=list)
    rulesets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Per fixed seat: inode of the folder that the rule set was made for, and the rule set."""
    child_filter: kernel.FilterProgram | None = None
    base_bytes: int = 0

    def prepare(self, num_seats: int) -> None:
        """Open what children may read, and build the rule sets of the fixed seats."""
        layers = self.plan.layers
        if Layer.LANDLOCK in layers:
            self._open_readable()
            if self.plan.is_private:  # one rule set: every call sees its own folder at the same path
                place = self.plan.places.view + view.SEAT
                self.rulesets[_ANY_SEAT] = (0, move_high(self._ruleset(place)))
            else:
                for seat in range(num_seats):
                    place = self.plan.places.call_of(seat)
                    self.rulesets[seat] = (os.stat(place).st_ino, move_high(self._ruleset(place)))
        if Layer.SECCOMP in layers:
            self.child_filter = seccomp.child_filter(
                allow_processes=self.plan.allow_processes, deny_signals=Layer.SIGNAL_FILTER in layers
            )
        if self.plan.is_private:  # the same for all children, so that no child copies the pages this writes
            self._name_folder(_ANY_SEAT)
        self.base_bytes = kernel.address_space_bytes()

    def lock_server(self) -> None:
        """Limit the fork server and, with it, all its future children."""
        layers = self.plan.layers
        if Layer.RLIMITS in layers:
            self._limit_server()
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        if Layer.NO_CAPABILITIES in layers:
            kernel.bound_capabilities((kernel.CAP_SYS_CHROOT,) if self.plan.is_private else ())
        if Layer.SLOT_UID in layers:
            os.setgroups([])
        if Layer.NO_NEW_PRIVS in layers:
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if Layer.SECCOMP in layers:
            seccomp.server_filter(allow_processes=self.plan.allow_processes).load()

    def enter(self, seat: int, *, cpu_s: float, memory_bytes: int, server_pid: int, keep_below: int) -> None:
        """Isolate this child: folder, uid, limits, rule set, filter. Close descriptors from `keep_below` up."""
        plan, layers = self.plan, self.plan.layers
        places, ruleset = plan.places, None
        if plan.is_private:
            view.enter(places.root_of(seat))
        else:
            os.chdir(places.call_of(seat))
        if Layer.LANDLOCK in layers:
            ruleset = self._ruleset_of(seat)
        if not plan.is_private:
            self._name_folder(seat)
        if Layer.RLIMITS in layers:
            space = self.base_bytes + memory_bytes
            resource.setrlimit(resource.RLIMIT_AS, (space, space))
            resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS, MAX_DESCRIPTORS))
            seconds = int(cpu_s) + 2  # a fallback: the supervisor enforces the limit more precisely
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        if Layer.SLOT_UID in layers:
            uid = plan.first_uid + seat
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        elif Layer.NO_CAPABILITIES in layers:
            kernel.clear_capabilities()
        if Layer.PARENT_DEATH in layers:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server_pid:
                os._exit(1)
        if ruleset is not None:
            kernel.landlock_restrict(ruleset)
        kernel.close_from(keep_below)
        if self.child_filter is not None:
            self.child_filter.load()

    def _name_folder(self, seat: int) -> None:
        """Name the folder of the call in the environment."""
        os.environ["HOME"] = os.environ["TMPDIR"] = self.plan.places.shown_to(seat)

    def _open_readable(self) -> None:
        for path in self.plan.readable:
            descriptor = move_high(os.open(path, os.O_PATH | os.O_CLOEXEC))
            rights = _FOLDER_RIGHTS if os.path.isdir(path) else kernel.LL_READ_FILE
            if path == "/dev/null":
                rights |= kernel.LL_WRITE_FILE
            elif self.plan.allow_processes and not path.startswith("/dev/"):
                rights |= kernel.LL_EXECUTE
            self.readable_fds.append((descriptor, rights))

    def _ruleset_of(self, seat: int) -> int:
        """Return the rule set for the current folder of this seat; the cleaner may have replaced the folder."""
        if self.plan.is_private:
            return self.rulesets[_ANY_SEAT][1]
        number, ruleset = self.rulesets.get(seat, (0, -1))
        return ruleset if number == os.stat(".").st_ino else self._ruleset(".")

    def _ruleset(self, place: str) -> int:
        plan = self.plan
        ruleset = kernel.landlock_ruleset(plan.landlock_abi, scoped=Layer.SIGNAL_SCOPE in plan.layers)
        for descriptor, rights in self.readable_fds:
            kernel.landlock_allow(ruleset, descriptor, rights)
        folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        kernel.landlock_allow(ruleset, folder, kernel.landlock_fs_rights(plan.landlock_abi) & ~_NOT_IN_TMP)
        os.close(folder)
        return ruleset

    def _limit_server(self) -> None:
        for which, limit in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            resource.setrlimit(which, (limit, limit))
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
        if Layer.SLOT_UID in self.plan.layers:
            resource.setrlimit(resource.RLIMIT_NPROC, (MAX_THREADS, MAX_THREADS))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def move_high(descriptor: int) -> int:
    """Return a duplicate at number 16 or higher, above the descriptors that a child uses."""
    import fcntl

    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 16)
    os.close(descriptor)
    return high


def lower_priority(niceness: int, affinity: tuple[int, ...] | None) -> None:
    """Lower the priority of this process, and restrict it to the cores of `affinity`."""
    os.nice(niceness)
    if affinity is not None:
        os.sched_setaffinity(0, affinity)
