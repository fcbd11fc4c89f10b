"""Figures, tables and the page, from one invented run."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.claims.claims import judge
from analysis.claims.claims_files import write_claims
from analysis.claims.endpoints import read_claims
from analysis.drawing.plot import write
from analysis.entropy.entropy_files import write_study
from analysis.figures import PLOTS
from analysis.inputs.lineage import require_lineage, write_lineage
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.report.parts import Parts
from analysis.report.report import build
from analysis.tables import GRIDS
from analysis.tables.grid import to_csv, to_latex, to_markdown
from bench.publish import publish
from config.model import AnalysisSection
from records.errors import ConfigError
from records.manifest import list_folder
from tests.analysis.conftest import REFERENCE, measured
from tests.analysis.fake_benches import SANDBOX_BENCH
from tests.analysis.fake_run import FakeRun

REPORT_KEYS = {"run", "preset", "phases_s", "wall_s", "scores", "claims", "provenance"}
SCORE_KEYS = {
    "checkpoint",
    "benchmark",
    "metric",
    "temperature",
    "control",
    "value",
    "low",
    "high",
    "num_questions",
    "num_samples",
    "grader",
    "questions",
    "question_se",
    "rerun_se",
}
SHOWN = ("differences", "scheduler")
"""Figures that this page draws; drawing all of them takes long."""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [v for k, v in values.items() if k in ("src", "href", "xlink:href") and v]
        self.ids += [v for k, v in values.items() if k == "id" and v]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open = self.open[:-1] if self.open and self.open[-1] == tag else self.open

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(
    run: Run, settings: AnalysisSection, reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, object]]:
    out = tmp_path_factory.mktemp("report")
    rows = [
        write(p, run, settings, reference, out / "figures")
        if p.name in SHOWN
        else {"name": p.name, "drawn": False}
        for p in PLOTS
    ]
    list_folder(out / "figures", {"stage": "figures", "parent": None, "data": None, "facts": {"plots": rows}})
    write_lineage(run, out / "figures", "figures", ["manifest.json"])
    judged = judge(read_claims(REFERENCE / "claims.yaml"), measured(run, settings), preset="tiny")
    write_claims(judged, out / "claims")
    write_lineage(run, out / "claims", "claims", ["claims.json"])
    write_study(run, settings, None, out / "entropy")
    write_lineage(run, out / "entropy", "entropy", ["entropy.json"])
    parts = Parts(
        figures=out / "figures",
        claims=out / "claims" / "claims.json",
        entropy=out / "entropy" / "entropy.json",
    )
    build(run, parts, settings, reference, out)
    record = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return (out / "index.html").read_text(encoding="utf-8"), record


def test_the_record_has_exactly_the_agreed_keys(page: tuple[str, dict[str, list[dict[str, object]]]]) -> None:
    record = page[1]
    assert set(record) == REPORT_KEYS
    assert all(set(score) == SCORE_KEYS for score in record["scores"])
    assert len(record["claims"]) == len(read_claims(REFERENCE / "claims.yaml"))


def test_the_page_is_well_formed_and_fetches_nothing(page: tuple[str, object]) -> None:
    tags = _Tags()
    tags.feed(page[0])
    assert tags.open == []
    assert all(link.startswith("#") for link in tags.links)
    assert "@import" not in page[0]
    assert "<script" not in page[0]
    assert "url(http" not in page[0]


def test_ids_are_unique_although_figures_share_names(page: tuple[str, object]) -> None:
    tags = _Tags()
    tags.feed(page[0])
    assert len(tags.ids) == len(set(tags.ids))


def test_every_claim_and_every_missing_benchmark_is_on_the_page(page: tuple[str, object]) -> None:
    for claim in read_claims(REFERENCE / "claims.yaml"):
        assert f'id="claim-{claim.id}"' in page[0]
    for name in ("bfcl_v3", "gpqa_diamond", "ifeval"):
        assert name in page[0]


def test_the_page_shows_rings_controls_and_limits(page: tuple[str, object]) -> None:
    for text in (
        "new numbers",
        "known pairs in the other order",
        "new family",
        "tool off",
        "golds permuted",
        "best constant",
    ):
        assert text in page[0]
    assert "What it cannot show" in page[0]


def test_a_figure_has_the_same_bytes_each_time(
    run: Run, settings: AnalysisSection, reference: Reference, tmp_path: Path
) -> None:
    plot = next(p for p in PLOTS if p.name == "sandbox")
    for name in ("a", "b"):
        write(plot, run, settings, reference, tmp_path / name)
    for path in sorted((tmp_path / "a").rglob("*.*")):
        twin = tmp_path / "b" / path.relative_to(tmp_path / "a")
        assert path.read_bytes() == twin.read_bytes(), path.name


def test_a_figure_without_data_states_that_and_still_exists(
    settings: AnalysisSection, reference: Reference, tmp_path: Path
) -> None:
    root = FakeRun(questions=2, k=1, tokens=False, metrics=False, only=("sft", "rl3")).write(
        tmp_path / "bare"
    )
    plot = next(p for p in PLOTS if p.name == "training_curves")
    row = write(plot, Run.open(root), settings, reference, tmp_path / "out")
    assert row["drawn"] is False
    assert "No data: metrics" in (tmp_path / "out" / "training_curves.svg").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "training_curves.pdf").stat().st_size > 0


def test_every_plotted_number_of_every_figure_is_in_its_csv_source(
    run: Run, settings: AnalysisSection, reference: Reference
) -> None:
    for plot in PLOTS:
        table = plot.table(run, settings, reference)
        assert not table.empty, plot.name


def test_tables_of_a_bare_run_hold_the_published_rows(
    settings: AnalysisSection, reference: Reference, tmp_path: Path
) -> None:
    root = FakeRun(questions=2, k=1, tokens=False, metrics=False, only=("sft",)).write(tmp_path / "bare")
    run = Run.open(root)
    for make in GRIDS:
        groups = make(run, settings, reference).groups
        assert groups.get("published") or "means" in groups  # the arms have no published numbers


def test_tables_have_the_same_cells_in_every_format(
    run: Run, settings: AnalysisSection, reference: Reference
) -> None:
    for make in GRIDS:
        grid = make(run, settings, reference)
        rows = sum(len(rows) for rows in grid.groups.values())
        assert len(to_csv(grid).splitlines()) == rows + 1
        assert len(re.findall(r"\\\\$", to_latex(grid), re.M)) == rows + 1 + len(grid.groups)
        for cells in (row for rows in grid.groups.values() for row in rows):
            assert f"| {cells[0]} |" in to_markdown(grid)


def test_later_results_that_a_command_does_not_read_are_accepted(tmp_path: Path) -> None:
    """Jobs run in any order: an arm that ends after the entropy study makes it no older."""
    FakeRun(questions=4, k=2).write(tmp_path / "run")
    run = Run.open(tmp_path / "run")
    for command, name in (("entropy", "entropy.json"), ("claims", "claims.json")):
        (run.root / command).mkdir(exist_ok=True)
        (run.root / command / name).write_text("{}")
        write_lineage(run, run.root / command, command, [name])
    publish(run.root, "sandbox", SANDBOX_BENCH | {"num_ok": 1999}, 1.0)
    require_lineage(run, run.root / "entropy" / "entropy.json", "entropy")
    with pytest.raises(ConfigError, match="made from another bench/sandbox"):
        require_lineage(run, run.root / "claims" / "claims.json", "claims")
