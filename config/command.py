"""What every command of every package shares: reading its sections, and saying in one line what is wrong.

Exit status: 0 done, 1 a check or gate fell short, 2 the input was wrong or the machine could not hold the output.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.errors import ConfigError, FellShort, UserError

if TYPE_CHECKING:
    from config.model import Config, RuntimeSection

CANNOT_WRITE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "no such file or folder",
    errno.ENOTDIR: "a parent is not a folder",
    errno.EISDIR: "it is a folder",
}


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what the user can mend into one line on stderr and its exit status; nothing computed is lost by it."""
    try:
        yield
    except FellShort as error:
        fail(str(error), status=1)
    except UserError as error:
        fail(str(error))
    except OSError as error:
        reason = CANNOT_WRITE.get(error.errno or 0)
        if reason is None:
            raise
        fail(f"{error.filename or 'output'}: {reason}; mend that and run again, finished work is kept")
    except Exception as error:
        # Libraries that write files wrap the system's error in one of their own.
        if "No space left on device" not in str(error):
            raise
        fail("the disk is full; make room and run again, finished work is kept")


def fail(message: str, status: int = 2) -> None:
    """Print one line and leave with a status."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(status)


def read_sections(
    declared: Sequence[str],
    *,
    sections: str | None,
    runtime: str | None,
    config: Sequence[Path],
    overrides: Sequence[str],
    change: Callable[[Config], Config] | None = None,
) -> tuple[Any, RuntimeSection]:
    """The declared sections and the runtime: from a rule's JSON strings, or from files and overrides.

    `change` is what an experiment makes of a configuration from files; the rules pass sections already changed.

    Raises ConfigError when both ways are used at once.
    """
    # Before torch is loaded: its threads spin while they wait, and beside any other load two of them took 18 s for
    # an update of the tiny model that takes 1.2 s when they sleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Imported here, because --help must not wait for the models.
    from config.resolve import resolve
    from config.sections import load_sections, sections_json, view_of

    if sections is None and runtime is None:
        resolved = resolve(config, overrides)
        return view_of(change(resolved) if change else resolved, declared), resolved.runtime
    if config or overrides:
        raise ConfigError("give either --config/--set or --sections/--runtime, not both")
    base = resolve()
    view = load_sections(sections or sections_json(base, declared), declared)
    return view, _read_runtime(Path(runtime)) if runtime else base.runtime


def _read_runtime(path: Path) -> RuntimeSection:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); start the run with snakemake"
        ) from None
    from config.sections import load_sections

    return load_sections(text, ["runtime"]).runtime
