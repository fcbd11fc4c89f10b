"""`Folders`: the folders of running calls, one per seat, empty before every call.

A seat has a store with two folders: its call may use `call`; the cleaner moves what it removes into `trash`. Names of
the sandbox and names of the code are therefore never in one folder, and an entry that blocks the cleaner blocks no
call. Where mounts are allowed a store is a tmpfs, so bytes and files of one seat do not reduce the room of another.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.child import kernel
from sandbox.places import Places

_PREFIX = "sandbox-"
MAX_FILES = 4096
"""Files and folders that the tmpfs of one seat may hold."""
_MAX_PASSES = 64
_trash_numbers = itertools.count()


def new_root(tmp_dir: str) -> str:
    """Create a folder for this supervisor, after removing the folders of dead supervisors of the same user."""
    sweep(tmp_dir)
    root = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=tmp_dir)
    os.chmod(root, 0o711)
    return root


def sweep(tmp_dir: str) -> None:
    """Remove the roots of supervisors that no longer run."""
    for entry in Path(tmp_dir).glob(f"{_PREFIX}*-*"):
        pid = entry.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if pid.isdigit() and not Path(f"/proc/{pid}").exists() and entry.stat().st_uid == os.geteuid():
                remove_root(str(entry))


def remove_root(root: str) -> None:
    """Remove a root and everything the code created in it; a mounted root disappears with its namespace."""
    if os.path.ismount(root):
        return
    with contextlib.suppress(OSError):
        for store in os.listdir(f"{root}/stores"):
            with contextlib.suppress(OSError):
                empty(f"{root}/stores/{store}/call", f"{root}/stores/{store}/trash")
    shutil.rmtree(root, ignore_errors=True)


@dataclass(slots=True, kw_only=True)
class Folders:
    """Creates and cleans the folders of seats."""

    places: Places
    first_uid: int | None
    """User id of seat 0, where seats have one."""
    store_bytes: int | None
    """Size of the tmpfs of a seat; None: no tmpfs."""
    held: tuple[object, ...] = ()
    """Sockets that keep the user ids of the seats reserved."""
    made: set[int] = field(default_factory=set)

    def lay_out(self) -> None:
        """Create the folders that contain those of the seats."""
        for name in ("stores", "roots"):
            os.mkdir(f"{self.places.root}/{name}")
            os.chmod(f"{self.places.root}/{name}", 0o711)

    def make(self, seat: int) -> None:
        """Create the folder of a seat, once.

        Raises:
            OSError: no room, or too many mounts.
        """
        if seat in self.made:
            return
        self._make_store(seat)
        if self.places.inside:
            root = self.places.root_of(seat)
            os.makedirs(root, exist_ok=True)
            kernel.bind(self.places.view, root, recursive=True)
            kernel.bind(self.places.call_of(seat), root + self.places.inside)
        self.made.add(seat)

    def _make_store(self, seat: int) -> None:
        store = self.places.store_of(seat)
        os.makedirs(store, exist_ok=True)
        if self.store_bytes is not None:
            kernel.mount_tmpfs(store, self.store_bytes, MAX_FILES)
        os.chmod(store, 0o711)
        os.makedirs(self.places.trash_of(seat), mode=0o700, exist_ok=True)
        self._make_call_folder(seat)

    def _make_call_folder(self, seat: int) -> None:
        call = self.places.call_of(seat)
        os.makedirs(call, mode=0o700, exist_ok=True)
        if self.first_uid is not None:
            os.chown(call, self.first_uid + seat, self.first_uid + seat)

    def is_clean(self, seat: int) -> bool:
        """Return whether a seat can be used again without cleaning."""
        with contextlib.suppress(OSError), os.scandir(self.places.call_of(seat)) as entries:
            return next(entries, None) is None
        return False

    def clean(self, seat: int) -> None:
        """Empty the folder of a seat for its next user; if that fails, replace it.

        Raises:
            OSError: both failed; the seat must not be used.
        """
        try:
            empty(self.places.call_of(seat), self.places.trash_of(seat))
        except OSError:
            self._replace(seat)
        if not self.is_clean(seat):
            raise OSError(f"the folder of seat {seat} is still in use")

    def _replace(self, seat: int) -> None:
        if self.places.inside:
            with contextlib.suppress(OSError):
                kernel.unmount(self.places.root_of(seat) + self.places.inside)
        if self.store_bytes is not None:
            with contextlib.suppress(OSError):
                kernel.unmount(self.places.store_of(seat))
            self._make_store(seat)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.places.call_of(seat), f"{self.places.trash_of(seat)}/{next(_trash_numbers)}")
            self._make_call_folder(seat)
        if self.places.inside:
            kernel.bind(self.places.call_of(seat), self.places.root_of(seat) + self.places.inside)


def empty(folder: str, trash: str) -> None:
    """Remove everything in a folder, at any depth and with any permissions.

    Folders move to `trash`, a folder of the sandbox on the same file system, which is emptied one level at a time.
    Paths stay short, no call recurses, and no name of the code conflicts with one of the sandbox.

    Raises:
        OSError: something in `folder` cannot be removed. Entries that remain in `trash` cause no error.
    """
    for _ in range(_MAX_PASSES):
        if not _strip(folder, trash):
            break
    else:
        raise OSError(f"{folder} fills up again and again")
    while subfolders := os.listdir(trash):
        num_left = 0
        for name in subfolders:
            try:
                _strip(f"{trash}/{name}", trash)
                os.rmdir(f"{trash}/{name}")
            except OSError:
                num_left += 1
        if num_left == len(subfolders):
            return


def _strip(folder: str, trash: str) -> bool:
    """Unlink the files of a folder and move its folders to the trash; return whether it had entries."""
    _open_up(folder)
    had_entries = False
    with os.scandir(folder) as entries:
        for entry in list(entries):
            had_entries = True
            if entry.is_dir(follow_symlinks=False):
                _open_up(entry.path)
                os.rename(entry.path, f"{trash}/{next(_trash_numbers)}")
            else:
                os.unlink(entry.path)
    return had_entries


def _open_up(folder: str) -> None:
    """Give the owner of a folder all rights; do not follow a link in its place."""
    descriptor = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IRWXU)
    finally:
        os.close(descriptor)
