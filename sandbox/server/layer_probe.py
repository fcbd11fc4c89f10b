"""`probe`: finds the layers that this kernel offers to this user.

The supervisor probes once, at its start, in temporary children, so a refusal of the kernel has no later effect.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from sandbox.child import kernel, seccomp
from sandbox.child import root_view as view
from sandbox.layers import IsolationReport, Layer, LayerState

MIN_LANDLOCK_ABI = 3
"""Below this version a call can truncate files that it may only read."""


def interpreter_folders(python_prefixes: Collection[str] | None = None) -> tuple[str, ...]:
    """Return folders and files that imports read: the standard library, installed packages, shared libraries."""
    prefixes = tuple(python_prefixes or (sys.prefix, sys.base_prefix))
    found = [
        os.path.realpath(entry)
        for entry in sys.path
        if entry and os.path.isdir(entry) and any(_is_beneath(entry, prefix) for prefix in prefixes)
    ]
    found += [os.path.join(sys.base_prefix, "lib")]
    found += ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib"]
    found += ["/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/usr/share/zoneinfo", "/usr/share/fonts"]
    found += ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
    return tuple(dict.fromkeys(entry for entry in found if os.path.exists(entry)))


def program_folders() -> tuple[str, ...]:
    """Return the folders of programs that code may start where processes are allowed: interpreter and system."""
    folders = (
        "/bin",
        "/usr/bin",
        os.path.dirname(sys.executable),
        os.path.dirname(os.path.realpath(sys.executable)),
    )
    return tuple(dict.fromkeys(folder for folder in folders if os.path.isdir(folder)))


def _is_beneath(path: str, prefix: str) -> bool:
    return path.startswith(prefix.rstrip("/") + "/lib")


def _succeeds(action: Callable[[], None]) -> str:
    """Run `action` in a child; return an empty text when it works, else the error of the kernel."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            os.write(write_end, str(error).encode("utf-8", "replace")[:400])
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        error_text = pipe.read().decode()
    status = os.waitpid(pid, 0)[1]
    return error_text or ("" if status == 0 else f"probe ended with status {status}")


def _read_interpreter() -> None:
    for folder in sys.path:
        if folder.startswith((sys.prefix, sys.base_prefix)) and os.path.isdir(folder):
            os.listdir(folder)
    with open(os.__file__, "rb"):
        pass


def _probe_slot_uid(uid: int, enter_view: Callable[[], None]) -> str:
    if os.geteuid() != 0:
        return "the caller is not root"

    def read_interpreter() -> None:
        enter_view()
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        _read_interpreter()

    error_text = _succeeds(read_interpreter)
    return f"the interpreter is not readable by other users ({error_text})" if error_text else ""


def _probe_seccomp() -> str:
    if not seccomp.is_supported():
        return f"system calls of {kernel.MACHINE} are not listed"

    def load() -> None:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.server_filter().load()
        seccomp.child_filter().load()

    return _succeeds(load)


def _probe_landlock(abi: int) -> str:
    if abi < 1:
        return "this kernel has no Landlock, or it is switched off"
    if abi < MIN_LANDLOCK_ABI:
        return f"needs Landlock ABI {MIN_LANDLOCK_ABI}, the kernel has {abi}: code could truncate files"

    def restrict() -> None:
        ruleset = kernel.landlock_ruleset(abi, scoped=False)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.landlock_restrict(ruleset)

    return _succeeds(restrict)


def _pin_one_page() -> None:
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page[0] = 1
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    os.close(kernel.pin([(start, start + mmap.PAGESIZE)]))


def _probe_mounts(folder: str) -> str:
    def mount() -> None:
        kernel.enter_mount_namespace()
        kernel.mount_tmpfs(folder, 2**20, 64)

    error_text = _succeeds(mount)
    who = "for this user" if os.geteuid() else "even for root"
    return f"mounts are not allowed here {who} ({error_text})" if error_text else ""


def _enter_view(folder: str, readable: Collection[str]) -> None:
    """Enter the view, as a call would; runs in a probe."""
    kernel.enter_mount_namespace()
    view.build(folder, readable)
    view.enter(folder)


def _probe_view(folder: str, readable: Collection[str]) -> str:
    def read_interpreter() -> None:
        _enter_view(folder, readable)
        _read_interpreter()

    return _succeeds(read_interpreter)


def _probe_signal(abi: int, has_uid: bool, disabled: Collection[str]) -> tuple[str, str]:
    """Return why there is no signal scope, and why the signal filter is not needed."""
    scope = "" if abi >= 6 else f"needs Landlock ABI 6, the kernel has {abi}"
    if Layer.SIGNAL_SCOPE in disabled:
        scope = "switched off"
    needed = not has_uid and bool(scope)
    return scope, "" if needed else "signal_scope or slot_uid does it"


def probe(
    folder: str, *, first_uid: int, readable: Collection[str] = (), disabled: Collection[str] = ()
) -> IsolationReport:
    """Try what every layer requires of the kernel; the first call tries the layers (`sandbox.server.layer_trial`).

    Args:
        folder: an existing folder to mount on.
        first_uid: user id of the first seat.
        readable: what calls may read.
        disabled: layers to leave out, for tests.
    """
    abi = kernel.landlock_abi()
    is_root = os.geteuid() == 0
    why: dict[Layer, str] = {}
    why[Layer.BOUNDED_TMP] = _probe_mounts(folder)
    why[Layer.PRIVATE_ROOT] = why[Layer.BOUNDED_TMP] or _probe_view(folder, readable)
    why[Layer.SECCOMP] = _probe_seccomp()
    why[Layer.LANDLOCK] = _probe_landlock(abi)
    for layer in (Layer.PRIVATE_ROOT, Layer.SECCOMP, Layer.LANDLOCK):
        if layer in disabled:
            why[layer] = "switched off"
    has_view = not why[Layer.PRIVATE_ROOT]
    why[Layer.SLOT_UID] = (
        "switched off"
        if Layer.SLOT_UID in disabled
        else _probe_slot_uid(
            first_uid, (lambda: _enter_view(folder, readable)) if has_view else (lambda: None)
        )
    )
    has_uid = not why[Layer.SLOT_UID]
    has_capabilities = has_view if not is_root else not has_uid
    why[Layer.NO_CAPABILITIES] = "" if has_capabilities else "the calls have none to lose"
    why[Layer.RLIMITS] = ""
    why[Layer.NO_NEW_PRIVS] = _succeeds(lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1))
    usable_abi = 0 if why[Layer.LANDLOCK] else abi
    why[Layer.SIGNAL_SCOPE], why[Layer.SIGNAL_FILTER] = _probe_signal(usable_abi, has_uid, disabled)
    why[Layer.SIGNAL_FILTER] = why[Layer.SIGNAL_FILTER] or why[Layer.SECCOMP]
    why[Layer.PARENT_DEATH] = ""
    why[Layer.FIXED_ADDRESSES] = _succeeds(kernel.disable_address_randomisation)
    why[Layer.HUGE_PAGES] = (
        "" if Path("/sys/kernel/mm/transparent_hugepage").exists() else "kernel without huge pages"
    )
    why[Layer.EAGER_PAGES] = _succeeds(_pin_one_page)
    for layer in disabled:
        why[Layer(layer)] = "switched off"
    states = tuple(
        LayerState(layer=layer, used=not why[layer], why=why[layer] or "in use") for layer in Layer
    )
    return IsolationReport(states=states, landlock_abi=usable_abi)


def descriptor_limit() -> int:
    """Raise the limit of open descriptors of this process to its maximum; return the new limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
