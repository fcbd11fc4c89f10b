"""Fixtures and rules of every test: benchmark files, one thread, no hub, random seeds, the `slow` mark."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Generator
from pathlib import Path
from time import monotonic

# Before torch is imported: the order of a sum depends on the number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]

SLOW_S = 5.0
"""A test that costs more carries the mark `slow`."""
TOLERANCE = 1.5
"""CPU seconds differ that much between processors and between quiet and shared cores: 7.5 s fail a test."""
SLOW_MARKS = ("slow", "kill")
IN_CI = "CI" in os.environ

# No deadline: a busy machine is not a fault of the code. CI tries the same examples each time, so that a commit is
# not blamed for an old fault; elsewhere each run draws a new seed.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=IN_CI, max_examples=60)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=20, help="kill moments to try (tests marked `kill`)")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of hypothesis here, because hypothesis itself prints one only for a failure."""
    if not IN_CI and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not IN_CI:
        seed = config.option.hypothesis_seed
        terminalreporter.write_line(f"hypothesis: repeat its examples with --hypothesis-seed={seed}")


def _cpu_s() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that costs over `SLOW_S` and carries no mark `slow`.

    The cost is the smaller of CPU seconds and wall seconds. A loaded machine stretches the wall alone. A child counts
        when it is waited for, so a test that ends an old worker process is charged for earlier tests, in CPU alone.
    """
    cpu_s, wall_s = _cpu_s(), monotonic()
    result = yield
    cost_s = min(_cpu_s() - cpu_s, monotonic() - wall_s)
    item.user_properties.append(("cost_s", round(cost_s, 3)))
    if cost_s > SLOW_S * TOLERANCE and not any(item.get_closest_marker(mark) for mark in SLOW_MARKS):
        pytest.fail(
            f"costs {cost_s:.1f} s of CPU and is not marked slow: share a fixture, or mark it", pytrace=False
        )
    return result


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
