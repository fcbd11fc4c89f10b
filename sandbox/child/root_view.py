"""`build` and `enter`: the root folder of a call where mounts are allowed.

It contains the interpreter, read only, and the folder of the call. The supervisor builds it once; each seat has a
copy of it (one mount call) with the folder of that seat on top. The code can open, change or query no other path
of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from sandbox.child import kernel

_VIEW_BYTES, _VIEW_INODES = 2**20, 4096


SEAT = "/seat"
"""Parent of the folder of the call: a Landlock rule takes effect on a mount only from above its mount point."""
INSIDE = f"{SEAT}/tmp"
"""Path of the folder of a call in the view."""


def build(view: str, readable: Collection[str]) -> None:
    """Mount what calls may read on the existing folder `view`, each path at its own place.

    Raises:
        OSError: the kernel refuses a mount.
    """
    kernel.mount_tmpfs(view, _VIEW_BYTES, _VIEW_INODES)
    os.chmod(view, 0o755)
    shown: list[str] = []
    for path in sorted({*readable, *(os.path.realpath(path) for path in readable)}):
        if not any(path.startswith(f"{parent}/") for parent in shown):
            _show(path, view + path)
            shown.append(path)
    os.makedirs(view + INSIDE, exist_ok=True)
    kernel.make_read_only(view)


def _show(path: str, target: str) -> None:
    is_folder = os.path.isdir(path)
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        with open(target, "x"):
            pass
    try:
        kernel.bind(path, target)
    except OSError:  # in a user namespace, a bind mount must include the mounts beneath
        kernel.bind(path, target, recursive=True)
    kernel.make_read_only(target, with_devices=path.startswith("/dev/"))


def enter(root: str) -> None:
    """Make `root` the root folder of this process and the folder of the call its working folder."""
    os.chroot(root)
    os.chdir(INSIDE)
