"""`one_line_errors`: reports errors that the user can fix as one line on standard error, in every command.

Exit status: 0 done, 1 a check or gate fell short, 2 the input was wrong or the machine could not store the output.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from records.errors import FellShort, UserError

CANNOT = {
    errno.ENOSPC: ("the disk is full", "free some space there"),
    errno.EDQUOT: ("the disk quota is used up", "free some space there"),
    errno.EFBIG: ("the file is larger than the limit allows", "free some space there"),
    errno.EACCES: ("permission denied", "change its permissions or name another path"),
    errno.EPERM: ("permission denied", "change its permissions or name another path"),
    errno.EROFS: ("the file system is read-only", "name a path on another one"),
    errno.ENOENT: ("no such file or folder", "name one that exists"),
    errno.ENOTDIR: ("a parent is not a folder", "name another path"),
    errno.EISDIR: ("it is a folder", "name a file"),
    errno.EEXIST: ("it exists already", "name another path"),
    errno.ENAMETOOLONG: ("the name is too long", "shorten it"),
    errno.ELOOP: ("its links run in a circle", "name another path"),
}
"""Error number of the system -> its meaning, and the remedy."""
FULL = ("No space left on device", "Disk quota exceeded")
READ_ONLY = ("Read-only file system",)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors that the user can fix into one line on stderr and an exit status; finished work is kept."""
    try:
        yield
    except FellShort as error:
        fail(str(error), status=1)
    except UserError as error:
        fail(str(error))
    except OSError as error:
        reason = CANNOT.get(error.errno or 0)
        if reason is None:
            raise
        fail(f"{error.filename or output_place()}: {_remedy(*reason)}")
    except Exception as error:
        # Libraries that write files wrap the system's error in their own.
        for code, texts in ((errno.ENOSPC, FULL), (errno.EROFS, READ_ONLY)):
            if any(text in str(error) for text in texts):
                fail(f"{output_place()}: {_remedy(*CANNOT[code])}")
        raise


def _remedy(what: str, remedy: str) -> str:
    return f"{what}; {remedy} and run again, finished work is kept"


def output_place() -> str:
    """Return the output path from the command's arguments: errors of a write seldom name their file."""
    given = dict(zip(sys.argv, [*sys.argv[1:], ""], strict=True))
    given |= dict(
        argument.split("=", 1) for argument in sys.argv if argument.startswith("--") and "=" in argument
    )
    for option in ("--out", "--work", "--run"):
        if option in given:
            return given[option]
    return f"the folder of results, seen from {os.getcwd()}"


def fail(message: str, status: int = 2) -> NoReturn:
    """Print one line and exit with a status."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(status)
