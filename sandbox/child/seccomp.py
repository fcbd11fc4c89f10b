"""`server_filter` and `child_filter`: refused system calls on the fork server, permitted ones on each child.

The fork server must fork and change its uid, so it keeps more calls than its children. Children may make the calls of
`sandbox.child.syscalls` and no other; none of them changes modes, owners, times or attributes of a file. A refused
call returns an errno (EPERM: Python raises PermissionError) instead of a kill, so the code sees an ordinary exception.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

from sandbox.child import syscalls
from sandbox.child.kernel import MACHINE, FilterProgram

# (x86_64, aarch64) numbers; None where the machine has no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "accept": (43, 202),
    "accept4": (288, 242),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fork": (57, None),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "listen": (50, 201),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "recvmmsg": (299, 243),
    "recvmsg": (47, 212),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semget": (64, 190),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vfork": (58, None),
    "vhangup": (153, 58),
}

# Calls that the fork server makes itself or leaves to its children; both refuse every other call on the list.
_CHILD_ONLY = [
    "chroot",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "kill",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "setsid",
    "setpgid",
    "setpriority",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "ioprio_set",
    "prctl",
    "prlimit64",
    "memfd_create",
    "pidfd_open",
    "pidfd_send_signal",
    "recvmsg",
    "sendmsg",
    "sendto",
]
_SIGNALS = ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"]
_PROCESSES = ["clone", "clone3", "fork", "vfork", "execve", "execveat"]

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE_THREAD = 0x00010000
_CLONE_NEW_NAMESPACES = 0x7E020000
_PRCTL_ALLOWED = {
    "PR_GET_PDEATHSIG": 2,
    "PR_GET_DUMPABLE": 3,
    "PR_SET_NAME": 15,
    "PR_GET_NAME": 16,
    "PR_CAPBSET_READ": 23,
    "PR_GET_NO_NEW_PRIVS": 39,
    "PR_SET_VMA": 0x53564D41,
}
_FCNTL_ALLOWED = {
    "F_DUPFD": 0,
    "F_GETFD": 1,
    "F_SETFD": 2,
    "F_GETFL": 3,
    "F_SETFL": 4,
    "F_GETLK": 5,
    "F_SETLK": 6,
    "F_SETLKW": 7,
    "F_OFD_GETLK": 36,
    "F_OFD_SETLK": 37,
    "F_OFD_SETLKW": 38,
    "F_DUPFD_CLOEXEC": 1030,
    "F_GETPIPE_SZ": 1032,
    "F_ADD_SEALS": 1033,
    "F_GET_SEALS": 1034,
}
"""A child seals its job file once, with a seal that admits no further one. F_SETOWN and F_SETSIG, which send signals,
and F_SETLEASE and F_NOTIFY, which act on files of other processes, are not permitted."""
_IOCTL_ALLOWED = {
    "TCGETS": 0x5401,
    "TIOCGPGRP": 0x540F,
    "TIOCGWINSZ": 0x5413,
    "FIONREAD": 0x541B,
    "FIONBIO": 0x5421,
    "FIONCLEX": 0x5450,
    "FIOCLEX": 0x5451,
    "TCGETS2": 0x802C542A,
}
"""Excludes calls that change attributes of a file (FS_IOC_SETFLAGS, FS_IOC_ENABLE_VERITY): a reading owner may."""
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR_OFFSET, _ARCH_OFFSET = 0, 4
_LOAD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_X32 = 0x40000000


def is_supported() -> bool:
    """Return whether this module lists the call numbers of this machine."""
    return MACHINE in _ARCHITECTURE


def _instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, when_true, when_false, value)


def _argument_offset(index: int) -> int:
    return 16 + 8 * index


def _of_machine(numbers: tuple[int | None, int | None]) -> int | None:
    return numbers[0 if MACHINE == "x86_64" else 1]


def _prologue() -> list[bytes]:
    return [
        _instruction(_LOAD, _ARCH_OFFSET),
        _instruction(_JEQ, _ARCHITECTURE[MACHINE], 1, 0),
        _instruction(_RET, _KILL_PROCESS),
        _instruction(_LOAD, _NR_OFFSET),
    ]


def _refuse(error: int = errno.EPERM) -> bytes:
    return _instruction(_RET, _ERRNO | error)


def _allow() -> bytes:
    return _instruction(_RET, _ALLOW)


def _runs(verdicts: dict[int, str], otherwise: str, beyond: str) -> list[tuple[int, str]]:
    """Return the first numbers of runs of calls that share a verdict; `beyond` applies to numbers above the last."""
    runs = [(0, verdicts.get(0, otherwise))]
    for number in range(1, syscalls.NEWEST + 1):
        verdict = verdicts.get(number, otherwise)
        if verdict != runs[-1][1]:
            runs.append((number, verdict))
    runs.append((syscalls.NEWEST + 1, beyond))
    if MACHINE == "x86_64":  # the x32 table offers every call a second time
        runs.append((_X32, "refuse"))
    return runs


def _search(runs: list[tuple[int, int]], start: int) -> list[bytes]:
    """Build a balanced tree of comparisons at `start` that leads from a call number to the place of its run.

    The kernel evaluates a new filter once per call number, to find the calls that it always allows. With a linear
    chain of comparisons this adds a tenth of a millisecond to each call.
    """
    if len(runs) == 1:
        return []
    left, right = runs[: len(runs) // 2], runs[len(runs) // 2 :]
    after = start + 1
    right_start = after + len(left) - 1
    to_left = after if len(left) > 1 else left[0][1]
    to_right = right_start if len(right) > 1 else right[0][1]
    node = _instruction(_JGE, right[0][0], to_right - after, to_left - after)
    return [node, *_search(left, after), *_search(right, right_start)]


def _filter(runs: list[tuple[int, str]], guards: dict[str, list[bytes]]) -> FilterProgram:
    """Build the tree, followed by the code of each verdict: a plain verdict, or the guard that checks an argument."""
    tests = guards | {"allow": [_allow()], "refuse": [_refuse()], "absent": [_refuse(errno.ENOSYS)]}
    places: dict[str, int] = {}
    code: list[bytes] = []
    for verdict, test in tests.items():
        places[verdict] = len(runs) - 1 + len(code)
        code += test
    tree = _search([(first, places[verdict]) for first, verdict in runs], 0)
    return FilterProgram([*_prologue(), *tree, *code])


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of calls on this machine, without the calls it does not have."""
    found = {name: _of_machine(syscalls.NUMBERS.get(name) or _NUMBERS[name]) for name in names}
    return {name: number for name, number in found.items() if number is not None}


def server_filter(*, allow_processes: bool = False) -> FilterProgram:
    """Build the filter of calls that neither the fork server nor its children may make."""
    spared = [*_CHILD_ONLY, *(_PROCESSES if allow_processes else ())]
    denied = _numbers(name for name in _NUMBERS if name not in spared)
    return _filter(_runs(dict.fromkeys(denied.values(), "refuse"), "allow", "allow"), {})


def allowed_names(*, allow_processes: bool = False, deny_signals: bool = False) -> list[str]:
    """Return the calls that a child may make; those in `_guards` with some arguments only."""
    names = [name for name in syscalls.NUMBERS if not (deny_signals and name in _SIGNALS)]
    return [*names, *(name for name in _PROCESSES if allow_processes and name not in ("clone", "clone3"))]


def _only(values: dict[str, int], argument: int) -> list[bytes]:
    """Refuse the call unless the low word of an argument is one of `values`."""
    tests = [_instruction(_JEQ, value, len(values) - k, 0) for k, value in enumerate(values.values())]
    return [_instruction(_LOAD, _argument_offset(argument)), *tests, _refuse()]


def _only_null(argument: int) -> list[bytes]:
    offset = _argument_offset(argument)
    code = []
    for word in (offset, offset + 4):
        code += [_instruction(_LOAD, word), _instruction(_JEQ, 0, 1, 0), _refuse()]
    return code


def _guards(*, allow_processes: bool) -> dict[str, list[bytes]]:
    """Return the checks of arguments, by the name of the call; each refuses or falls through."""
    flags = _instruction(_LOAD, _argument_offset(0))
    if allow_processes:
        clone = [flags, _instruction(_JSET, _CLONE_NEW_NAMESPACES, 0, 1), _refuse()]
    else:
        clone = [flags, _instruction(_JSET, _CLONE_THREAD, 1, 0), _refuse()]
    return {
        "fcntl": _only(_FCNTL_ALLOWED, 1),
        "ioctl": _only(_IOCTL_ALLOWED, 1),
        "clone": clone,
        "prctl": _only(_PRCTL_ALLOWED, 0),
        "prlimit64": [_instruction(_LOAD, _argument_offset(0)), _instruction(_JEQ, 0, 1, 0), _refuse()],
        "sendto": _only_null(4),
    }


def child_filter(*, allow_processes: bool = False, deny_signals: bool = False) -> FilterProgram:
    """Build the filter of calls that a child may make."""
    names = allowed_names(allow_processes=allow_processes, deny_signals=deny_signals)
    guards = _guards(allow_processes=allow_processes)
    verdicts = {number: name if name in guards else "allow" for name, number in _numbers(names).items()}
    # glibc falls back to clone, whose flags a filter can read, when clone3 does not exist.
    verdicts |= dict.fromkeys(_numbers(["clone3"]).values(), "absent")
    tests = {name: [*test, _allow()] for name, test in guards.items()}
    return _filter(_runs(verdicts, "refuse", "absent"), tests)
