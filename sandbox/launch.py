"""What a supervisor settles before it starts anything: isolation, folders, limits of its own."""

from __future__ import annotations

import os

from sandbox import fleet, isolation, kernel, scratch
from sandbox.isolation import IsolationReport, Layer, Level
from sandbox.jail import JailPlan
from sandbox.settings import Settings


class StartError(RuntimeError):
    """The sandbox cannot run here; the message says why and what to do."""


def _stay_on(cores: tuple[int, ...]) -> None:
    """Keep this process, and all it starts, on some cores.

    Raises:
        StartError: none of them exists here.
    """
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise StartError(
            f"sandbox setting affinity is {cores}; this machine offers {sorted(os.sched_getaffinity(0))}"
        ) from error


def prepare(settings: Settings) -> tuple[IsolationReport, JailPlan]:
    """Probe the layers, make the folders of the seats, become the reaper of whatever is orphaned.

    Raises:
        StartError: less isolation than the minimum.
    """
    isolation.descriptor_limit()
    if settings.affinity is not None:
        _stay_on(settings.affinity)
    tmp_root = scratch.new_root(settings.tmp_dir)
    report = isolation.probe(tmp_root, first_uid=settings.first_uid, disabled=settings.disabled_layers)
    missing = report.missing_for(settings.min_isolation)
    if missing:
        scratch.remove_root(tmp_root)
        raise StartError(
            f"isolation '{settings.min_isolation}' is required, this machine gives '{report.level}'; missing: "
            f"{missing}. Mend it, or lower min_isolation (one of {', '.join(Level)}) knowing what that means"
        )
    if Layer.BOUNDED_TMP in report.used:
        scratch.bound(tmp_root, settings.tmp_bytes)
    if Layer.FIXED_ADDRESSES in report.used:
        kernel.disable_address_randomisation()
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    plan = JailPlan(
        layers=report.used,
        landlock_abi=report.landlock_abi,
        first_uid=settings.first_uid,
        tmp_root=tmp_root,
        readable=(
            *isolation.interpreter_folders(),
            *settings.python_path,
            *(isolation.program_folders() if settings.allow_processes else ()),
        ),
        allow_processes=settings.allow_processes,
    )
    for seat in range(settings.num_slots):
        scratch.make_seat(plan.tmp_root, seat, fleet.uid_of(plan, seat))
    return report, plan
