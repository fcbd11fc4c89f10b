"""The scheduler study: its interval; the record of a measure in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.inputs.runs import Run
from bench.publish import publish
from bench.schedule import bootstrap_interval
from records.errors import ConfigError
from records.manifest import verify
from records.run_folder import BENCH, RunFolder
from tests.analysis.fake_benches import SANDBOX_BENCH, SCHEDULER_BENCH


def test_the_bootstrap_interval_holds_the_mean() -> None:
    low, high = bootstrap_interval([1.0, 1.2, 1.4, 1.1])
    assert low < 1.175 < high


def test_a_record_in_a_run_has_the_manifest_of_a_job_and_names_its_run(tmp_path: Path) -> None:
    publish(tmp_path / "tiny", "scheduler", SCHEDULER_BENCH, 1.5)
    folder = RunFolder(tmp_path / "tiny").bench("scheduler")
    manifest = verify(folder)
    assert (manifest.stage, manifest.facts) == ("scheduler_bench", {"run": "tiny"})
    run = Run(tmp_path / "tiny")
    assert run.bench("scheduler") == SCHEDULER_BENCH
    assert run.phases_s() == {"bench/scheduler": 1.5}
    folder.joinpath(BENCH).write_text("{}")
    with pytest.raises(ConfigError, match=r"record\.json: sha256 .* differs"):
        run.bench("scheduler")


def test_a_record_of_another_run_is_refused(tmp_path: Path) -> None:
    publish(tmp_path / "other", "sandbox", SANDBOX_BENCH, 1.5)
    (tmp_path / "other").rename(tmp_path / "tiny")
    with pytest.raises(ConfigError, match=r"measured in run other, but .* is of run tiny"):
        Run(tmp_path / "tiny").bench("sandbox")
