"""The list of permitted system calls, and the table of the threat model that accounts for it."""

from __future__ import annotations

import re
from pathlib import Path

from sandbox.child import seccomp, syscalls

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


def test_no_call_that_changes_files_of_others_or_leaves_the_process_is_permitted() -> None:
    permitted = set(seccomp.allowed_names())
    assert not permitted.intersection(_FORBIDDEN.split())
    assert set(seccomp.allowed_names(deny_signals=True)) < permitted


def test_no_number_is_permitted_twice_or_beyond_what_is_known() -> None:
    for machine in (0, 1):
        numbers = [pair[machine] for pair in syscalls.NUMBERS.values() if pair[machine] is not None]
        assert len(numbers) == len(set(numbers))
        assert max(number for number in numbers if number is not None) <= syscalls.NEWEST
