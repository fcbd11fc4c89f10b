"""The list of permitted system calls, and the table of the threat model that accounts for it."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.child import seccomp, syscalls

_ALLOW = 0x7FFF0000
_FORBIDDEN = """
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat setxattr lsetxattr
fsetxattr setxattrat removexattr mknod mknodat flock open_by_handle_at name_to_handle_at io_uring_setup mount
umount2 unshare setns ptrace process_vm_writev socket connect bind sendmsg execve fork vfork clone3 memfd_create
bpf keyctl userfaultfd perf_event_open sync syncfs inotify_init1 pidfd_open chroot personality statmount
"""


def test_the_table_of_the_threat_model_has_a_row_for_each_group(project_root: Path) -> None:
    text = (project_root / "docs" / "threat_model.md").read_text(encoding="utf-8")
    table = text.partition("## What a call can still reach")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)[1:]
    assert rows == list(syscalls.GROUPS)
    named = set(re.findall(r"`([a-z_]+\.(?:py|jsonl))`", table))
    tests = project_root / "tests" / "sandbox"
    assert all((tests / name).exists() for name in named - {"child_bytes.py"})


def test_no_permitted_syscall_changes_other_files_or_leaves_the_process() -> None:
    permitted = set(seccomp.allowed_names())
    assert not permitted.intersection(_FORBIDDEN.split())
    assert set(seccomp.allowed_names(deny_signals=True)) < permitted


def test_no_call_number_is_permitted_twice_or_unknown() -> None:
    for machine in (0, 1):
        numbers = [pair[machine] for pair in syscalls.NUMBERS.values() if pair[machine] is not None]
        assert len(numbers) == len(set(numbers))
        assert max(number for number in numbers if number is not None) <= syscalls.NEWEST


def _verdict(code: bytes, number: int, first_argument: int = 0) -> tuple[int, int]:
    """The kernel's decision of a filter for one call: the value it returns, and the instructions it runs."""
    data = struct.pack("<IIQ6Q", number, seccomp._ARCHITECTURE[seccomp.MACHINE], 0, first_argument, *[0] * 5)
    at = accumulator = num_steps = 0
    while True:
        op, when_true, when_false, value = struct.unpack_from("<HBBI", code, 8 * at)
        num_steps += 1
        at += 1
        if op == seccomp._RET:
            return value, num_steps
        if op == seccomp._LOAD:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif op == seccomp._JSET:
            at += when_true if accumulator & value else when_false
        else:
            is_met = accumulator == value if op == seccomp._JEQ else accumulator >= value
            at += when_true if is_met else when_false


@pytest.mark.parametrize("allow_processes", [False, True])
@pytest.mark.parametrize("deny_signals", [False, True])
def test_the_filter_permits_the_listed_calls_and_no_other_number(
    allow_processes: bool, deny_signals: bool
) -> None:
    names = seccomp.allowed_names(allow_processes=allow_processes, deny_signals=deny_signals)
    allowed = set(seccomp._numbers(names).values()) - set(seccomp._numbers(["clone"]).values())
    code = seccomp.child_filter(allow_processes=allow_processes, deny_signals=deny_signals)._code.raw
    x32 = range(0x40000000, 0x40000000 + 600)
    passed = {
        number for number in (*range(1024), *x32, 2**31, 2**32 - 1) if _verdict(code, number)[0] == _ALLOW
    }
    guarded = set(seccomp._numbers(seccomp._guards(allow_processes=allow_processes)).values())
    assert passed - guarded == allowed - guarded
    clone = seccomp._numbers(["clone"])["clone"]
    assert (_verdict(code, clone)[0] == _ALLOW) is allow_processes
    assert _verdict(code, clone, first_argument=0x00010000)[0] == _ALLOW
    assert _verdict(code, clone, first_argument=0x10000000)[0] != _ALLOW


def test_the_kernel_finds_any_call_in_a_dozen_comparisons() -> None:
    for program in (seccomp.server_filter(), seccomp.child_filter()):
        assert max(_verdict(program._code.raw, number)[1] for number in range(512)) <= 24
        assert sum(_verdict(program._code.raw, number)[1] for number in range(512)) / 512 <= 13


def test_a_fork_server_maps_no_library_of_ciphers() -> None:
    code = "import sys, sandbox.child.fork_server as f; f.preload([]); print('_hashlib' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
