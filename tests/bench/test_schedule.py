"""The scheduler study: its interval, and existing files of the user."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from bench.schedule import app, bootstrap_interval


def test_the_bootstrap_interval_holds_the_mean() -> None:
    low, high = bootstrap_interval([1.0, 1.2, 1.4, 1.1])
    assert low < 1.175 < high


def test_a_file_of_the_user_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "mine.json"
    kept.write_text("mine\n")
    result = CliRunner().invoke(app, ["--quick", "--out", str(kept)])
    assert result.exit_code == 2, result.output
    assert "mine.json: exists already" in result.stderr
    assert kept.read_text() == "mine\n"
