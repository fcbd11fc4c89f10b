"""Errors of commands: one line and status 2 for faults of the user, a traceback for others."""

from __future__ import annotations

import errno
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from config.command import one_line_errors
from records.errors import ConfigError
from records.files import write_text


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("a.yaml: is\nwrong"), "error: a.yaml: is wrong"),
        (OSError(errno.ENOSPC, "No space left", "out/file"), "out/file: the disk is full"),
        (
            PermissionError(errno.EACCES, "no", "out/file"),
            "out/file: permission denied; change its permissions",
        ),
        (
            OSError(errno.EROFS, "no", "out/file"),
            "out/file: the file system is read-only; name a path on another",
        ),
        (OSError(errno.ENOTDIR, "no", "out/file"), "out/file: a parent is not a folder"),
        (OSError(errno.ENAMETOOLONG, "no", "out/file"), "out/file: the name is too long"),
        (
            RuntimeError("Internal: write failed: No space left on device"),
            "some/out: the disk is full; free some",
        ),
        (RuntimeError("Read-only file system (os error 30)"), "some/out: the file system is read-only"),
        (
            OSError(errno.ENOSPC, "No space left"),
            "some/out: the disk is full; free some space there and run again",
        ),
    ],
)
def test_a_fault_of_the_user_is_one_line_and_status_2(
    error: Exception, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m analysis", "figures", "--run", "r", "--out", "some/out"])
    with pytest.raises(SystemExit) as left, one_line_errors():
        raise error
    assert left.value.code == 2
    written = capsys.readouterr().err
    assert message in written
    assert written.count("\n") == 1


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError(errno.EIO, "broken disk"), KeyError("x")])
def test_a_fault_of_the_suite_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)), one_line_errors():
        raise error


def test_a_write_that_fails_names_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit), one_line_errors():
        write_text(tmp_path / "file" / "out.json", "x")
    assert "file" in capsys.readouterr().err


def test_a_full_disk_names_the_file_that_did_not_fit(tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk: the system's error names no file either."""
    code = (
        "import resource, signal, pathlib\n"
        "from records.files import write_text\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_text(pathlib.Path('out.json'), 'x' * 5000)\n"
        "except OSError as error:\n    print(error.filename)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, list(tmp_path.iterdir())) == ("out.json\n", [])


@pytest.mark.parametrize(
    ("module", "typed", "nearest"),
    [
        ("trainer.cli", "prepair", "prepare"),
        ("evaluation.cli", "regarde", "regrade"),
        ("analysis.cli", "figure", "figures"),
        ("sandbox.cli", "docter", "doctor"),
        ("config.__main__", "shw", "show"),
    ],
)
def test_an_unknown_command_ends_with_the_nearest_known_one(module: str, typed: str, nearest: str) -> None:
    done = CliRunner().invoke(importlib.import_module(module).app, [typed])
    assert done.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{nearest}'?" in done.output
