"""The kernel calls that Python does not wrap: prctl, Landlock, seccomp, signalfd, madvise, mount namespaces.

Thin: one function per call, an OSError where the kernel refuses, no policy. Linux on x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2

ADDR_NO_RANDOMIZE = 0x0040000
MADV_COLLAPSE = 25
SIG_BLOCK, SIG_SETMASK = 0, 2
CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWIPC = 0x00020000, 0x40000000, 0x08000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 0x4000, 1 << 18

_SYSCALLS = {
    "x86_64": {"capset": 126, "landlock": 444, "close_range": 436, "personality": 135},
    "aarch64": {"capset": 91, "landlock": 444, "close_range": 436, "personality": 92},
}
MACHINE = platform.machine()
_NR = _SYSCALLS.get(MACHINE, _SYSCALLS["x86_64"])
_NR_CLOSE_RANGE = _NR["close_range"]
_NR_IO_URING_SETUP = 425
_NR_LANDLOCK_RESTRICT = _NR["landlock"] + 2


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0) -> None:
    """Set one attribute of this process."""
    _check(
        _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), 0), f"prctl {option}"
    )


def close_from(first: int) -> None:
    """Close every descriptor from `first` up."""
    _check(_libc.syscall(_NR_CLOSE_RANGE, first, 0xFFFFFFFF, 0), "close_range")


def disable_address_randomisation() -> None:
    """Programs executed from now on get the same addresses in every run."""
    current = _check(_libc.syscall(_NR["personality"], 0xFFFFFFFF), "personality")
    _check(_libc.syscall(_NR["personality"], current | ADDR_NO_RANDOMIZE), "personality")


def drop_capabilities() -> None:
    """Empty every capability set of this process, so that uid 0 is an ordinary user to the kernel."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
    sets = ctypes.create_string_buffer(24)
    _check(_libc.syscall(_NR["capset"], header, sets), "capset")


def signal_descriptor(numbers: Iterable[int]) -> int:
    """A non-blocking descriptor that becomes readable when one of the (blocked) signals is pending."""
    mask = (ctypes.c_ulong * 16)()
    for number in numbers:
        mask[0] |= 1 << (number - 1)
    return _check(_libc.signalfd(-1, ctypes.byref(mask), os.O_NONBLOCK | os.O_CLOEXEC), "signalfd")


# Landlock

LL_EXECUTE, LL_WRITE_FILE, LL_READ_FILE, LL_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
LL_MAKE_CHAR, LL_MAKE_SOCK, LL_MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
LL_REFER, LL_TRUNCATE, LL_IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
LL_SCOPE_ABSTRACT_UNIX, LL_SCOPE_SIGNAL = 1, 2


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 when absent or switched off."""
    version = _libc.syscall(_NR["landlock"], 0, 0, 1)
    return max(version, 0)


def landlock_fs_rights(abi: int) -> int:
    """Every file-system right that this version can restrict."""
    bits = {0: 0, 1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    return (1 << bits) - 1


def landlock_ruleset(abi: int, *, scoped: bool) -> int:
    """A new rule set that denies all file access and TCP, and with `scoped` signals to outsiders; its descriptor."""
    net = 3 if abi >= 4 else 0
    scope = LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL if scoped and abi >= 6 else 0
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", landlock_fs_rights(abi), net, scope))
    return _check(_libc.syscall(_NR["landlock"], attributes, size, 0), "landlock_create_ruleset")


def landlock_allow(ruleset: int, descriptor: int, rights: int) -> None:
    """Grant `rights` beneath the file or folder open as `descriptor`."""
    rule = ctypes.create_string_buffer(struct.pack("<Qi", rights, descriptor))
    _check(_libc.syscall(_NR["landlock"] + 1, ruleset, 1, rule, 0), "landlock_add_rule")


def landlock_restrict(ruleset: int) -> None:
    """Bind this thread to the rule set, for ever."""
    _check(_libc.syscall(_NR_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")


# seccomp


class FilterProgram:
    """A BPF program kept alive in memory, ready to load in a forked child at the cost of one call."""

    def __init__(self, instructions: list[bytes]) -> None:
        self._code = ctypes.create_string_buffer(b"".join(instructions))
        self._header = ctypes.create_string_buffer(
            struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(self._code))
        )
        self._pointer = ctypes.c_ulong(ctypes.addressof(self._header))

    def load(self) -> None:
        """Filter the calls of this thread and of everything it starts, for ever."""
        result = _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), self._pointer, 0, 0)
        _check(result, "seccomp")


# Memory


def collapse_heap(spared: Collection[int] = (), min_bytes: int = 2 * 2**20) -> int:
    """Ask for huge pages under the private writable memory of this process; bytes collapsed.

    Fork copies one entry per huge page instead of 512. Kernel >= 6.1; elsewhere 0 and no harm. `spared` are the
    huge pages, numbered by address, to leave alone.
    """
    collapsed = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        start, end = (int(part, 16) for part in fields[0].split("-"))
        anonymous = len(fields) == 5 or fields[5] == "[heap]"
        if not anonymous or not fields[1].startswith("rw") or end - start < min_bytes:
            continue
        for number in range(-(-start // min_bytes), end // min_bytes):
            first = ctypes.c_void_p(number * min_bytes)
            if number not in spared and not _libc.madvise(first, ctypes.c_size_t(min_bytes), MADV_COLLAPSE):
                collapsed += min_bytes
    return collapsed


def pin(spans: Sequence[tuple[int, int]]) -> int:
    """Pin memory (first address, end) for as long as the returned descriptor is open; a fork copies it at once.

    Raises:
        OSError: no io_uring here, or too little memory may be locked.
    """
    ring = _check(_libc.syscall(_NR_IO_URING_SETUP, 1, ctypes.create_string_buffer(120)), "io_uring_setup")
    vectors = b"".join(struct.pack("<QQ", start, end - start) for start, end in spans)
    buffers = ctypes.create_string_buffer(vectors, len(vectors))
    result = _libc.syscall(_NR_IO_URING_SETUP + 2, ring, 0, buffers, len(spans))
    if result < 0:
        number = ctypes.get_errno()
        os.close(ring)
        raise OSError(number, f"io_uring_register: {os.strerror(number)}")
    return ring


def address_space_bytes() -> int:
    """Virtual memory this process has mapped now."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


# Namespaces


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    _check(_libc.unshare(flags), "unshare")


def mount_private_tmpfs(target: str, num_bytes: int) -> None:
    """Mount a tmpfs of bounded size on `target`, seen by this mount namespace only."""
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "mount private")
    options = f"size={num_bytes},nr_inodes=65536,mode=0711".encode()
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV)
    _check(_libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", flags, options), "mount tmpfs")


def cpu_clock_of(pid: int) -> int:
    """The clock id that reads the CPU time of process `pid`; for time.clock_gettime."""
    return (~pid << 3) | 2
