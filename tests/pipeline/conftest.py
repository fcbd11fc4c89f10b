"""One straight micro run for all pipeline tests of a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pipeline.checkout import Checkout


@dataclass(frozen=True, slots=True)
class MicroRun:
    """A finished micro run."""

    checkout: Checkout
    config: Path
    output: str

    @property
    def folder(self) -> Path:
        return self.checkout.results("micro")


@pytest.fixture(scope="session")
def micro_run(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> MicroRun:
    """The whole DAG on one core, from an empty folder."""
    checkout = Checkout.copy(project_root, tmp_path_factory.mktemp("checkout"))
    config = checkout.configure("micro")
    done = checkout.snakemake(config, "reproduce", cores=1)
    assert done.returncode == 0, done.stdout[-6000:]
    return MicroRun(checkout, config, done.stdout)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs take minutes, more on a busy machine: their limit is an hour, not that of unit tests.

    Kills and other readers of the straight run are separate processes: either makes the run once.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for mark in (pytest.mark.timeout(3600), pytest.mark.slow, pytest.mark.pipeline):
                item.add_marker(mark)
            if "micro_run" in getattr(item, "fixturenames", ()):
                is_kill = item.get_closest_marker("kill") is not None
                item.add_marker(pytest.mark.xdist_group("kills" if is_kill else "straight run"))
