"""Kernel calls that Python does not wrap: prctl, Landlock, seccomp, signalfd, madvise, mount namespaces.

One function per call, without policy; it raises OSError where the kernel refuses. Linux on x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_fcntl = _libc.fcntl  # looked up once here instead of in each child

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2

_F_ADD_SEALS = 1033
ADDR_NO_RANDOMIZE = 0x0040000
MADV_COLLAPSE = 25
SIG_BLOCK, SIG_SETMASK = 0, 2
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 0x4000, 1 << 18
MNT_DETACH = 2
CAP_SYS_CHROOT = 18
_KEPT_BY_REMOUNT = {2: MS_NOSUID, 4: MS_NODEV, 8: MS_NOEXEC, 1024: 1024, 2048: 2048}
"""ST_ flags of a mount that another user namespace has locked, and their MS_ names: a remount must repeat them."""

_SYSCALLS = {
    "x86_64": {"capset": 126, "landlock": 444, "close_range": 436, "personality": 135},
    "aarch64": {"capset": 91, "landlock": 444, "close_range": 436, "personality": 92},
}
MACHINE = platform.machine()
_NR = _SYSCALLS.get(MACHINE, _SYSCALLS["x86_64"])
_NR_CLOSE_RANGE = _NR["close_range"]
_NR_IO_URING_SETUP = 425
_NR_LANDLOCK_RESTRICT = _NR["landlock"] + 2


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def map_large_blocks(num_bytes: int) -> None:
    """Make malloc map every block of at least `num_bytes` separately, so that freeing it returns it to the kernel.

    By default glibc raises this bound to the largest block freed so far, up to 32 MiB. From then on large blocks are
    placed among small ones, and free space between them stays with the process. Without glibc this does nothing.
    """
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(M_MMAP_THRESHOLD, num_bytes)
        _libc.mallopt(
            M_TRIM_THRESHOLD, 4 * num_bytes
        )  # otherwise each buffer at the end of the heap is mapped and unmapped again


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


def add_seals(descriptor: int, seals: int) -> None:
    """Seal a file in memory. Calling the module `fcntl` in a fresh child would first map its pages."""
    _check(_fcntl(descriptor, _F_ADD_SEALS, seals), "fcntl")


def disable_address_randomisation() -> None:
    """Give programs executed from now on the same addresses in every run."""
    current = _check(_libc.syscall(_NR["personality"], 0xFFFFFFFF), "personality")
    _check(_libc.syscall(_NR["personality"], current | ADDR_NO_RANDOMIZE), "personality")


_CAP_HEADER = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
_NO_CAPABILITIES = ctypes.create_string_buffer(24)


def bound_capabilities(kept: Collection[int] = ()) -> None:
    """Drop every capability of this process and its children except `kept` (numbers below 32)."""
    for capability in range(64):
        number = ctypes.c_ulong(capability)
        if capability not in kept and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break
    mask = sum(1 << capability for capability in kept)
    sets = ctypes.create_string_buffer(struct.pack("<6I", mask, mask, 0, 0, 0, 0))
    _check(_libc.syscall(_NR["capset"], _CAP_HEADER, sets), "capset")


def clear_capabilities() -> None:
    """Drop every remaining capability, so that the kernel treats uid 0 as an ordinary user."""
    _check(_libc.syscall(_NR["capset"], _CAP_HEADER, _NO_CAPABILITIES), "capset")


def signal_descriptor(numbers: Iterable[int]) -> int:
    """Return a non-blocking descriptor that becomes readable when one of the (blocked) signals is pending."""
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
    """Return the version of Landlock in this kernel; 0 when it is absent or switched off."""
    version = _libc.syscall(_NR["landlock"], 0, 0, 1)
    return max(version, 0)


def landlock_fs_rights(abi: int) -> int:
    """Return every file-system right that this version can restrict."""
    bits = {0: 0, 1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    return (1 << bits) - 1


def landlock_ruleset(abi: int, *, scoped: bool) -> int:
    """Return a rule set that denies all file access and TCP; `scoped` also denies signals to outside processes."""
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
    """Bind this thread to the rule set permanently."""
    _check(_libc.syscall(_NR_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")


# seccomp


class FilterProgram:
    """A BPF program in memory; a forked child loads it with one call."""

    def __init__(self, instructions: list[bytes]) -> None:
        self._code = ctypes.create_string_buffer(b"".join(instructions))
        self._header = ctypes.create_string_buffer(
            struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(self._code))
        )
        self._pointer = ctypes.c_ulong(ctypes.addressof(self._header))

    def load(self) -> None:
        """Filter the system calls of this thread and of its descendants permanently."""
        result = _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), self._pointer, 0, 0)
        _check(result, "seccomp")


# Memory


def collapse_heap(spared: Collection[int] = (), min_bytes: int = 2 * 2**20) -> int:
    """Request huge pages for the private writable memory of this process; returns the bytes collapsed.

    Fork copies one entry per huge page instead of 512. Before kernel 6.1 it does nothing and returns 0. `spared`
    lists the huge pages to leave alone, numbered by address.
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
        OSError: io_uring is not available, or the limit of locked memory is too low.
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
    """Return the virtual memory that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def memory_available_bytes() -> int:
    """Return the bytes that the kernel can provide without swapping."""
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**62


# Namespaces and mounts


def unshare(flags: int) -> None:
    """Move this process into new namespaces of the kinds in `flags`."""
    _check(_libc.unshare(flags), "unshare")


def enter_user_namespace(flags: int = 0) -> None:
    """Enter a user namespace with every capability and unchanged ids; `flags` adds more namespaces."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def enter_mount_namespace() -> None:
    """Make mounts from now on visible to this process and its children only."""
    if os.geteuid() == 0:
        unshare(CLONE_NEWNS)
    else:
        enter_user_namespace(CLONE_NEWNS)
    _mount(None, "/", None, MS_REC | MS_PRIVATE)


def _mount(
    source: str | None, target: str, kind: bytes | None, flags: int, options: str | None = None
) -> None:
    texts = (None if source is None else os.fsencode(source), os.fsencode(target), kind)
    data = None if options is None else options.encode()
    _check(_libc.mount(*texts, ctypes.c_ulong(flags), data), f"mount on {target}")


def mount_tmpfs(target: str, num_bytes: int, num_inodes: int) -> None:
    """Mount a tmpfs with a limit on bytes and on files."""
    options = f"size={num_bytes},nr_inodes={num_inodes},mode=0711"
    _mount("tmpfs", target, b"tmpfs", MS_NOSUID | MS_NODEV, options)


def bind(source: str, target: str, *, recursive: bool = False) -> None:
    """Mount `source` at `target` as well."""
    _mount(source, target, None, MS_BIND | (MS_REC if recursive else 0))


def make_read_only(target: str, *, with_devices: bool = False) -> None:
    """Refuse writes and set-uid programs through this mount; refuse devices unless `with_devices`."""
    flags = os.statvfs(target).f_flag
    kept = sum(name for bit, name in _KEPT_BY_REMOUNT.items() if flags & bit)
    own = MS_RDONLY | MS_NOSUID | (0 if with_devices else MS_NODEV)
    _mount(None, target, None, MS_REMOUNT | MS_BIND | own | kept)


def unmount(target: str) -> None:
    """Unmount, even while the mount is in use."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def cpu_clock_of(pid: int) -> int:
    """Return the clock id of the CPU time of process `pid`, for `time.clock_gettime`."""
    return (~pid << 3) | 2
