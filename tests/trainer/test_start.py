"""Missing requirements are reported before the first job, only for the jobs that will run."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.resolve import DEFAULTS, resolve
from records.errors import ConfigError
from trainer.doctor import _data, _model
from trainer.start import require_start

COMMIT = "4e2d2c9b8a5d"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder as `hf download --local-dir` writes it."""
    record = tmp_path / "model" / ".cache" / "huggingface" / "download" / "config.json.metadata"
    record.parent.mkdir(parents=True)
    record.write_text(f"{COMMIT}\netag\n1700000000.0\n")
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path / "model"


def pretrained(path: Path, *more: str):
    return resolve([], [f"model.path={path}", *more])


@pytest.mark.parametrize(
    ("overrides", "rules", "message"),
    [
        (["data.source=mine"], {"data"}, "data.source = 'mine'"),
        (
            ["model.path=absent"],
            {"base", "sft"},
            "model.path = absent: holds no config.json",
        ),
        (["runtime.paths.data=absent"], {"evaluate"}, "runtime.paths.data = absent: is not a folder"),
        (
            ["rollout.engine={kind: endpoint, base: 'http://127.0.0.1:1/v1'}", "runtime.deterministic=false"],
            {"rl1", "evaluate"},
            "rollout.engine.kind = endpoint: a server takes no new weights",
        ),
        (["sandbox.preload=[no_such_module]"], {"corpus"}, "no module 'no_such_module'"),
    ],
)
def test_a_missing_requirement_of_a_job_is_reported(
    overrides: list[str], rules: set[str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        require_start(resolve([], overrides), rules)
    assert message in str(caught.value)
    require_start(resolve([], overrides), {"draw_figures", "report"})


def test_a_revision_is_compared_with_the_download_record(checkpoint: Path) -> None:
    require_start(pretrained(checkpoint), {"base"})
    require_start(pretrained(checkpoint, f"model.revision={COMMIT}"), {"base"})
    with pytest.raises(ConfigError, match=f"was downloaded at {COMMIT}"):
        require_start(pretrained(checkpoint, "model.revision=deadbeef"), {"base"})
    (checkpoint / ".cache" / "huggingface" / "download" / "config.json.metadata").unlink()
    with pytest.raises(ConfigError, match="has no download record"):
        require_start(pretrained(checkpoint, "model.revision=deadbeef"), {"base"})


@pytest.mark.parametrize("preset", ["tiny", "micro"])
def test_the_presets_of_this_machine_lack_nothing(preset: str) -> None:
    rules = {"data", "corpus", "base", "sft", "rl1", "rl2", "hard", "rl3", "evaluate", "arm", "score"}
    require_start(resolve([DEFAULTS.with_name(f"{preset}.yaml")]), rules)


def test_the_doctor_reports_what_a_run_would_refuse(checkpoint: Path) -> None:
    (checkpoint.parent / "empty").mkdir()
    assert not _model(pretrained(checkpoint.parent / "empty")).ok
    assert not _model(pretrained(checkpoint, "model.revision=deadbeef")).ok
    assert _model(pretrained(checkpoint)).ok
    mine = resolve([], ["data.source=mine", f"runtime.paths.data={checkpoint}"])
    assert not _data(mine).ok
    assert _data(resolve()).ok
