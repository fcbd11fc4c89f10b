"""What commands share: one line and status 2 for what the user can mend, a traceback for the rest."""

from __future__ import annotations

import errno

import pytest

from config.command import one_line_errors
from config.resolve import ConfigError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConfigError("a.yaml: is\nwrong"), "error: a.yaml: is wrong"),
        (OSError(errno.ENOSPC, "No space left", "out/file"), "out/file: the disk is full"),
        (PermissionError(errno.EACCES, "no", "out/file"), "out/file: permission denied"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_status_2(
    error: Exception, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left, one_line_errors():
        raise error
    assert left.value.code == 2
    written = capsys.readouterr().err
    assert told in written
    assert written.count("\n") == 1


@pytest.mark.parametrize("error", [RuntimeError("ours"), OSError(errno.EIO, "broken disk"), KeyError("x")])
def test_a_fault_of_ours_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)), one_line_errors():
        raise error
