from __future__ import annotations

import tomllib
from pathlib import Path

import yaml


def test_the_citation_names_this_version_and_licence_and_the_paper(project_root: Path) -> None:
    citation = yaml.safe_load((project_root / "CITATION.cff").read_text())
    project = tomllib.loads((project_root / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["references"][0]["identifiers"][0]["value"] == "arXiv:2508.20722"
