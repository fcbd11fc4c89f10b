"""One invented run for all tests of the analysis, which must not write into it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from analysis.claims.claims import Measure
from analysis.claims.effects import measured_on, results_of
from analysis.claims.endpoints import read_claims
from analysis.inputs.reference import Reference, read_reference
from analysis.inputs.runs import Run
from config.model import AnalysisSection
from tests.analysis.fake_run import FakeRun
from tests.analysis.settings import SETTINGS

REFERENCE = Path(__file__).parents[2] / "results" / "reference"


def measured(run: Run, settings: AnalysisSection) -> Measure:
    """The claims of the project measured on a run."""
    claims = read_claims(REFERENCE / "claims.yaml")
    return measured_on(results_of(run, settings, read_reference(REFERENCE), claims), settings)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(FakeRun(questions=16, seed=4).write(tmp_path_factory.mktemp("results") / "fake"))


@pytest.fixture(scope="session")
def settings() -> AnalysisSection:
    return SETTINGS


@pytest.fixture(scope="session")
def reference() -> Reference:
    return yaml.safe_load((REFERENCE / "paper.yaml").read_text(encoding="utf-8"))
