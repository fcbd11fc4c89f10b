"""`prepare`: sets up isolation, folders and limits of a supervisor before it starts any process."""

from __future__ import annotations

import os

from sandbox.child import kernel
from sandbox.child import root_view as view
from sandbox.child.jail import JailPlan
from sandbox.layers import IsolationReport, Layer, Level
from sandbox.places import Places
from sandbox.server import call_folders, layer_probe, seat_uids
from sandbox.server.call_folders import Folders
from sandbox.server.orphans import Traces
from sandbox.settings import Settings

_ROOT_SIZE = (2**30, 2**20)
"""Bytes and files of the tmpfs that holds the sandbox's own folders."""
LARGE_BLOCK_BYTES = 2**18
"""Inputs and outputs of calls of at least this size leave the supervisor's memory once they are passed on."""


class StartError(RuntimeError):
    """The sandbox cannot run here; the message gives the reason and the remedy."""


def _stay_on(cores: tuple[int, ...]) -> None:
    """Restrict this process and its descendants to some cores.

    Raises:
        StartError: none of the cores exists here.
    """
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise StartError(
            f"sandbox setting affinity is {cores}; this machine offers {sorted(os.sched_getaffinity(0))}"
        ) from error


def prepare(settings: Settings) -> tuple[IsolationReport, JailPlan, Folders]:
    """Probe the layers, create the folders of the seats, and become the reaper of orphans.

    Raises:
        StartError: less isolation than the minimum, or no room for the folders.
    """
    layer_probe.descriptor_limit()
    kernel.map_large_blocks(LARGE_BLOCK_BYTES)
    if settings.affinity is not None:
        _stay_on(settings.affinity)
    os.umask(0o022)
    readable = (
        *layer_probe.interpreter_folders(),
        *settings.python_path,
        *(layer_probe.program_folders() if settings.allow_processes else ()),
    )
    try:
        tmp_root = call_folders.new_root(settings.tmp_dir)
    except OSError as error:
        raise StartError(_no_folder(settings.tmp_dir, error)) from error
    try:
        return _settle(settings, tmp_root, readable)
    except BaseException as error:
        call_folders.remove_root(tmp_root)
        if isinstance(error, OSError):
            raise StartError(_no_folder(settings.tmp_dir, error)) from error
        raise


def _no_folder(tmp_dir: str, error: OSError) -> str:
    return (
        f"the folders of the calls cannot be made in {tmp_dir}: {error.strerror or error}; free room there, or set "
        "tmp_dir to a folder that is writable and has room"
    )


def _settle(
    settings: Settings, tmp_root: str, readable: tuple[str, ...]
) -> tuple[IsolationReport, JailPlan, Folders]:
    report = layer_probe.probe(
        tmp_root, first_uid=settings.first_uid, readable=readable, disabled=settings.disabled_layers
    )
    check_level(report, settings.min_isolation)
    used = report.used
    if used & {Layer.BOUNDED_TMP, Layer.PRIVATE_ROOT}:
        kernel.enter_mount_namespace()
        kernel.mount_tmpfs(tmp_root, *_ROOT_SIZE)
    if Layer.PRIVATE_ROOT in used:
        os.mkdir(f"{tmp_root}/view")
        view.build(f"{tmp_root}/view", readable)
    if Layer.FIXED_ADDRESSES in used:
        kernel.disable_address_randomisation()
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    places = Places(
        root=tmp_root,
        salt=os.urandom(16).hex(),
        inside=view.INSIDE if Layer.PRIVATE_ROOT in used else "",
    )
    first_uid, holders = settings.first_uid, []
    if Layer.SLOT_UID in used:
        first_uid, holders = seat_uids.reserve(first_uid, settings.num_slots + settings.max_sessions)
    plan = JailPlan(
        layers=used,
        landlock_abi=report.landlock_abi,
        first_uid=first_uid,
        places=places,
        readable=readable,
        allow_processes=settings.allow_processes,
    )
    folders = Folders(
        places=places,
        first_uid=first_uid if Layer.SLOT_UID in used else None,
        store_bytes=settings.tmp_bytes if Layer.BOUNDED_TMP in used else None,
        held=tuple(holders),
    )
    folders.lay_out()
    for seat in range(settings.num_slots):
        folders.make(seat)
    return report, plan, folders


def check_level(report: IsolationReport, minimum: Level) -> None:
    """Refuse less isolation than the minimum.

    Raises:
        StartError: gives the level reached and what is missing.
    """
    missing = report.missing_for(minimum)
    if missing:
        raise StartError(
            f"isolation '{minimum}' is required, this machine gives '{report.level}'; missing: {missing}. Repair "
            f"that, or lower min_isolation (one of {', '.join(Level)}) after reading docs/threat_model.md"
        )


def traces_of(plan: JailPlan, settings: Settings) -> Traces:
    """Return the traces by which a client finds the processes of this supervisor after its death."""
    return Traces(
        tmp_root=plan.places.root,
        mount_namespace=os.stat("/proc/self/ns/mnt").st_ino if os.path.ismount(plan.places.root) else 0,
        first_uid=plan.first_uid,
        num_uids=settings.num_slots + settings.max_sessions if Layer.SLOT_UID in plan.layers else 0,
    )
