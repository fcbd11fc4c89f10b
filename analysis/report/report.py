"""`build`: the report of a run: one self-contained page, and report.json for machines."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis.claims.claims import ClaimVerdict, Verdict
from analysis.claims.headline import control_rows, difference_rows
from analysis.claims.units import called, shown
from analysis.comparison.identity import leaves
from analysis.figures import PLOTS
from analysis.inputs.reference import Reference
from analysis.inputs.runs import Run
from analysis.report.opening import opening
from analysis.report.page import render
from analysis.report.parts import Parts, drawn_figures, read_claim_rows, read_study
from analysis.report.record import ReportRecord
from analysis.tables import GRIDS
from config.model import AnalysisSection
from records.files import read_json, write_text
from records.manifest import MANIFEST, Manifest
from records.run_folder import PAGE, REPORT
from records.stages import CHECKPOINTS
from records.stored import write_record

SMALL_PRESETS = frozenset({"tiny", "micro"})
"""Presets whose page lists what a random-initialised model of a million parameters cannot show."""

VERDICT_WORDS = {
    Verdict.SUPPORTED: "supported",
    Verdict.CONTRADICTED: "contradicted",
    Verdict.SAME_DIRECTION: "same direction",
    Verdict.OPPOSITE: "opposite",
    Verdict.AGREES: "agrees",
    Verdict.DISAGREES: "does not agree",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_TESTABLE: "not testable at this scale",
    Verdict.NOT_RUN: "not run",
}


def build(run: Run, parts: Parts, settings: AnalysisSection, reference: Reference, out: Path) -> ReportRecord:
    """Write index.html and report.json into `out`; returns the record.

    Raises:
        ConfigError: The claims or a figure are missing.
    """
    record = report_record(run, read_claim_rows(run, parts.claims))
    page = render_page(run, record, parts, settings, reference)
    write_record(out / REPORT, record)
    write_text(out / PAGE, page)
    return record


def report_record(run: Run, claims: Sequence[ClaimVerdict]) -> ReportRecord:
    """The numbers of a run and of its claims."""
    started = run.facts.get("started_unix")
    return ReportRecord(
        run=run.name,
        preset=run.preset,
        phases_s=run.phases_s(),
        wall_s=None if started is None else round(time.time() - float(started), 3),
        scores=[replace(score, questions={}) for score in run.scores()],
        claims=list(claims),
        provenance=provenance(run),
    )


def provenance(run: Run) -> dict[str, Any]:
    """Return the provenance of this run: machine, configuration, manifests and builds."""
    config, data = run.facts.get("config", {}), run.folder.data
    builds = {path.stem: read_json(path) for path in run.folder.found(run.folder.build("*"))}
    return {
        "data": asdict(Manifest.load(data)) if (data / MANIFEST).exists() else {},
        "checkpoints": {name: asdict(m) for name in CHECKPOINTS if (m := run.manifest(name))},
        "build": builds,
        "config": config,
        "not_evaluated": [asdict(row) for row in run.unavailable()],
        "machine": run.facts.get("machine", {}),
    }


def render_page(
    run: Run, record: ReportRecord, parts: Parts, settings: AnalysisSection, reference: Reference
) -> str:
    """The page as text: inline CSS and SVG, no script, nothing fetched."""
    scores = run.scores()
    claims = record.claims
    groups = claim_groups(claims)
    differences = difference_rows(scores, settings)
    figures = drawn_figures(run, parts.figures)
    return render(
        "report.html",
        run=run.name,
        preset=run.preset,
        small=run.preset in SMALL_PRESETS,
        wall_s=record.wall_s,
        opening=opening(differences, claims),
        differences=differences,
        least_p=1 / (settings.bootstrap_draws + 1),
        controls=control_rows(scores),
        scores=record.scores,
        groups=groups,
        unmeasured=[claim for claim in claims if claim.value is None],
        words=VERDICT_WORDS,
        shown=shown,
        called=called,
        figures={plot.name: _inline(figures.get(plot.name), plot.name) for plot in PLOTS},
        plots=PLOTS,
        tables=[make(run, settings, reference) for make in GRIDS],
        entropy=read_study(run, parts.entropy),
        unavailable=run.unavailable(),
        phases=sorted(record.phases_s.items()),
        provenance=[(k, _short(v)) for k, v in leaves(record.provenance)],
        conflicts=reference["conflicts"],
        confidence=settings.confidence,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimGroup:
    """Claims with a result that answer to one unit, those with a direction first."""

    title: str
    note: str
    rows: list[ClaimVerdict]

    @property
    def counts(self) -> list[tuple[str, str, int]]:
        """Words, key and number of each verdict among the rows."""
        found = Counter(row.verdict for row in self.rows)
        return [(VERDICT_WORDS[v], str(v), found[v]) for v in Verdict if found[v]]


def claim_groups(claims: Sequence[ClaimVerdict]) -> list[ClaimGroup]:
    """Return measured claims by the scope of their verdict; verdicts of different groups are not added up."""
    measured = [claim for claim in claims if claim.value is not None]
    arithmetic = [claim for claim in measured if claim.evidence == "arithmetic"]
    training = [claim for claim in measured if claim.unit == "checkpoint"]
    this_run = [claim for claim in measured if claim not in arithmetic and claim not in training]
    groups = [
        ClaimGroup(
            title="About this run",
            note="Intervals over questions or steps of one training run. Another seed would give other checkpoints.",
            rows=_decided_first(this_run),
        ),
        ClaimGroup(
            title="About training",
            note="Intervals over SFT checkpoints, each with its own seeds; fewer than five are inconclusive at most.",
            rows=_decided_first(training),
        ),
        ClaimGroup(
            title="The paper's own numbers",
            note="Arithmetic on published values. No run changes these rows, and they are not counted with the others.",
            rows=_decided_first(arithmetic),
        ),
    ]
    return [group for group in groups if group.rows]


def _decided_first(rows: Sequence[ClaimVerdict]) -> list[ClaimVerdict]:
    return sorted(rows, key=lambda row: row.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_TESTABLE))


def _inline(text: str | None, name: str) -> str | None:
    """Return inline SVG with unique ids; None without a figure."""
    return None if text is None else inline_svg(text, name)


def inline_svg(text: str, prefix: str) -> str:
    """An SVG file as part of a page: no prolog, ids made unique, width left to the page.

    >>> inline_svg('<?xml version="1.0"?><svg width="1pt" height="2pt" id="a"><use href="#a"/></svg>', "f")
    '<svg id="f-a"><use href="#f-a"/></svg>'
    """
    body = text[text.index("<svg") :].strip()
    head, rest = body.split(">", 1)
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    body = re.sub(r"<metadata>.*?</metadata>", "", f"{head}>{rest}", flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", body)


def _short(value: Any) -> str:
    """A leaf as text; long lists are counted, not listed."""
    return f"{len(value)} items" if isinstance(value, list) and len(value) > 8 else str(value)
