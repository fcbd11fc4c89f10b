"""`verify`: checks of a finished run: manifests, splits, lineage, metrics and controls.

It writes verdicts and never fails; `judge` decides in a separate step, so that the evidence outlives a bad verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.inputs.lineage import check_run
from analysis.inputs.runs import Run, find_score
from records.errors import ConfigError
from records.files import read_json, read_jsonl, sha256_of
from records.manifest import MANIFEST, Manifest
from records.stages import CHECKPOINTS, STAGES

CHANCE_SLACK = 0.03
"""Points above the best constant answer that permuted golds may score; answers of one family sometimes repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One checked property."""

    name: str
    ok: bool
    detail: str


def verify(root: Path) -> list[Check]:
    """Run every check; a check that cannot be made fails and names the reason."""
    run = Run.open(root)
    checks = []
    for name, look in _LOOKS:
        try:
            found = list(look(name, run))
            if not found and name in _ALWAYS:
                found = [Check(name=name, ok=False, detail="there is nothing to check")]
            checks += found
        except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
            checks.append(Check(name=name, ok=False, detail=f"cannot be checked: {error}"))
    return checks


def to_json(checks: list[Check]) -> dict[str, Any]:
    """Return the content of verify.json."""
    return {"ok": all(check.ok for check in checks), "checks": [asdict(check) for check in checks]}


def judge(path: Path) -> list[str]:
    """Lines for the checks of a verify.json that fell short; empty when all hold."""
    checks = read_json(path).get("checks")
    if not isinstance(checks, list) or not checks:
        raise ConfigError(f"{path}: holds no check; run python -m analysis verify again")
    for check in checks:
        if not isinstance(check, dict) or not isinstance(check.get("ok"), bool):
            raise ConfigError(f"{path}: a check without an outcome; run python -m analysis verify again")
    return [f"{check.get('name')}: {check.get('detail')}" for check in checks if not check["ok"]]


def _digests(name: str, run: Run) -> Iterator[Check]:
    """Check that every file of a manifest is present and unchanged."""
    for manifest_path in sorted(run.root.glob(f"*/{MANIFEST}")) + sorted(run.root.glob(f"*/*/{MANIFEST}")):
        folder = manifest_path.parent
        files = Manifest.load(folder).files
        wrong = [name for name, digest in files.items() if _sha256(folder / name) != digest]
        detail = f"{len(files)} files match" if not wrong else f"differ or missing: {', '.join(wrong)}"
        yield Check(name=f"{name} {folder.relative_to(run.root)}", ok=not wrong, detail=detail)


def _duplicates(name: str, run: Run) -> Iterator[Check]:
    """Check that no problem occurs in two splits."""
    found = Manifest.load(run.folder.data).facts["duplicates"]
    total = found["exact"] + found["params"]
    yield Check(name=name, ok=total == 0, detail=f"{found['exact']} exact, {found['params']} by parameters")


def _lineage(name: str, run: Run) -> Iterator[Check]:
    """Check that each checkpoint was trained from the current files of its parent."""
    for stage in STAGES:
        if stage.parent is None:
            continue
        child, parent = stage.name, stage.parent
        younger, older = run.manifest(child), run.manifest(parent)
        ok = younger is not None and older is not None and younger.parent == older.digest
        yield Check(name=f"{name} {child}", ok=ok, detail=f"parent {parent}")


def _metrics(name: str, run: Run) -> Iterator[Check]:
    """Check that every stage has each of its steps once, and only finite numbers."""
    for path in run.folder.found(run.folder.metrics("*")):
        if path.name.endswith(".timing.jsonl"):
            continue
        rows = read_jsonl(path)
        steps = [row["step"] for row in rows]
        whole = bool(steps) and steps == list(range(steps[0], steps[0] + len(steps)))
        finite = all(math.isfinite(v) for row in rows for v in row.values() if isinstance(v, float))
        yield Check(name=f"{name} {path.stem}", ok=whole and finite, detail=f"{len(steps)} steps")


def _controls(name: str, run: Run) -> Iterator[Check]:
    """Check that permuted golds score at chance, and a mute model 0."""
    scores = run.scores()
    for checkpoint in CHECKPOINTS:
        permuted = find_score(scores, checkpoint, "procedural", control="shuffled_golds")
        constant = find_score(scores, checkpoint, "procedural", metric="chance")
        mute = find_score(scores, checkpoint, "procedural", control="mute")
        if permuted is None or constant is None or mute is None:
            continue
        ok = permuted.low <= constant.value + CHANCE_SLACK and mute.value == 0.0
        detail = (
            f"permuted golds {permuted.value:.3f} [{permuted.low:.3f}, {permuted.high:.3f}], "
            f"best constant {constant.value:.3f}, mute {mute.value:.3f}"
        )
        yield Check(name=f"{name} {checkpoint}", ok=ok, detail=detail)


def _evaluations(name: str, run: Run) -> Iterator[Check]:
    """Check that every summary agrees with its samples, and that all belong to this run."""
    check_run(run)
    detail = f"{len(run.evaluations())} summaries agree with their samples"
    yield Check(name=name, ok=True, detail=detail)


_ALWAYS = frozenset({"digests", "lineage", "metrics"})
"""Checks that must find something in every trained run."""
_LOOKS: tuple[tuple[str, Callable[[str, Run], Iterator[Check]]], ...] = (
    ("digests", _digests),
    ("duplicates", _duplicates),
    ("lineage", _lineage),
    ("metrics", _metrics),
    ("controls", _controls),
    ("evaluations", _evaluations),
)


def _sha256(path: Path) -> str | None:
    return sha256_of(path) if path.is_file() else None
