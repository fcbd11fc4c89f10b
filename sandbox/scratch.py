"""The folders of running calls: one per seat, empty before every call, all gone at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
from pathlib import Path

from sandbox import kernel

_PREFIX = "sandbox-"


def new_root(tmp_dir: str) -> str:
    """A folder for this supervisor; what dead supervisors of the same user left is swept first."""
    sweep(tmp_dir)
    root = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=tmp_dir)
    os.chmod(root, 0o711)
    return root


def sweep(tmp_dir: str) -> None:
    """Remove the roots of supervisors that no longer live."""
    for entry in Path(tmp_dir).glob(f"{_PREFIX}*-*"):
        pid = entry.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if pid.isdigit() and not Path(f"/proc/{pid}").exists() and entry.stat().st_uid == os.geteuid():
                remove_root(str(entry))


def remove_root(root: str) -> None:
    """Remove a root and whatever the code made of its folders."""
    with contextlib.suppress(OSError):
        for seat in os.listdir(root):
            empty(f"{root}/{seat}")
    shutil.rmtree(root, ignore_errors=True)


def bound(root: str, num_bytes: int) -> None:
    """Put a private tmpfs of bounded size on the root; it vanishes with the last process that sees it."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount_private_tmpfs(root, num_bytes)


def make_seat(root: str, seat: int, uid: int | None) -> None:
    """The folder of one seat, for the user that runs there only."""
    path = f"{root}/{seat}"
    os.makedirs(path, mode=0o700, exist_ok=True)
    if uid is not None:
        os.chown(path, uid, uid)


def empty(path: str) -> None:
    """Remove everything in a folder, however deep and whatever its permissions.

    Folders are pulled up to the top before they are entered, so no path grows long and nothing recurses.
    """
    os.chmod(path, stat.S_IRWXU)
    if not os.listdir(path):
        return
    names = itertools.count()
    while entries := list(os.scandir(path)):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _flatten(entry.path, path, names)
            else:
                os.unlink(entry.path)


def _flatten(folder: str, top: str, names: itertools.count[int]) -> None:
    os.chmod(folder, stat.S_IRWXU)
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, stat.S_IRWXU)
            os.rename(entry.path, f"{top}/.{os.getpid()}.{next(names)}")
        else:
            os.unlink(entry.path)
    os.rmdir(folder)
