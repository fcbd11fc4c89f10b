"""What every test shares: the folder of benchmark files, the number of kill moments, one thread, no hub."""

from __future__ import annotations

import os
from pathlib import Path

# Before torch is imported: the order of a sum depends on the number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]

# No deadline: a busy machine is no fault of the code. The same examples each time: a red run can be repeated.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=20, help="kill moments to try (tests marked `kill`)")


@pytest.fixture(scope="session")
def num_kills(request: pytest.FixtureRequest) -> int:
    """How many seeded kill moments a test marked `kill` tries."""
    return request.config.option.kills


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The maintainers' folder of benchmark files and grading cases, beside the checkout; never committed."""
    folder = ROOT.parent / "shared"
    if not (folder / "cases").is_dir():
        pytest.skip("needs the benchmark files and grading cases in ../shared (folders cases/ and data/)")
    return folder
