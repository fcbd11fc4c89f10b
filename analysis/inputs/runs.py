"""`Run`: a run folder read from disk: manifests, metrics, scores, samples, token tables and benches.

Everything except the evaluations may be absent, so an unfinished run can be read too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from config.arms import runs_of
from records.errors import ConfigError
from records.evaluation import EvaluationSummary, Score, Unavailable
from records.files import read_json, read_jsonl, require_digest, sha256_of
from records.manifest import MANIFEST, RUN, Manifest, verify
from records.run_folder import BENCH, RunFolder
from records.stages import CHECKPOINTS, RL_STAGES

CONTROLS = ("none", "tool_off", "shuffled_golds", "mute")


@dataclass(frozen=True, slots=True)
class Run:
    """Reads one run folder; nothing is cached, nothing is written."""

    root: Path

    @property
    def folder(self) -> RunFolder:
        """Where its files lie."""
        return RunFolder(self.root)

    @classmethod
    def open(cls, root: Path) -> Run:
        """Check that `root` looks like a run.

        Raises:
            ConfigError: It is no folder, or holds neither scores nor metrics.
        """
        if not root.is_dir():
            raise ConfigError(f"{root}: no such run folder; give results/<run>")
        run = cls(root)
        if not run.evaluations() and not run.folder.found(run.folder.metrics("*")):
            raise ConfigError(
                f"{root}: neither eval/*/summary.json nor metrics/*.jsonl; run the evaluation first"
            )
        return run

    @property
    def facts(self) -> dict[str, Any]:
        """run.json at the top: run, preset, started_unix; empty when the run was not started by the workflow."""
        facts = read_json(self.folder.facts, default={})
        for name, kind in (("run", str), ("preset", str), ("started_unix", int | float), ("config", dict)):
            if not isinstance(facts.get(name, kind() if kind in (str, dict) else 0), kind):
                raise ConfigError(f"{self.folder.facts}: {name} is of another type; start the run again")
        return facts

    @property
    def name(self) -> str:
        return str(self.facts.get("run", self.root.resolve().name))

    @property
    def preset(self) -> str:
        return str(self.facts.get("preset", self.name))

    def evaluations(self) -> list[Path]:
        """Folders of finished evaluations, by name."""
        return [path.parent for path in self.folder.found(self.folder.summary("*"))]

    def summaries(self) -> dict[Path, EvaluationSummary]:
        """Evaluation folder -> its summary, by name."""
        return {folder: EvaluationSummary.load(folder) for folder in self.evaluations()}

    def scores(self) -> list[Score]:
        """Every score of every evaluation, in a fixed order."""
        rows: list[Score] = []
        held: dict[tuple[object, ...], Path] = {}
        for folder, summary in self.summaries().items():
            for score in summary.scores:
                other = held.setdefault(score.key, folder)
                if other != folder:
                    raise ConfigError(
                        f"{folder}: {score.benchmark} {score.metric} of {score.checkpoint} is in {other} too; move one "
                        "of the two folders away"
                    )
                rows.append(score)
        return sorted(rows, key=_score_order)

    def unavailable(self) -> list[Unavailable]:
        """Benchmarks that were not evaluated and how to get them, each once."""
        found: dict[str, Unavailable] = {}
        for summary in self.summaries().values():
            for row in summary.unavailable:
                found.setdefault(row.benchmark, row)
        return [found[name] for name in sorted(found)]

    def metrics(self) -> pd.DataFrame:
        """Metrics of the RL stages, one row per step, sorted; empty when none was trained."""
        return self._stage_lines(RL_STAGES)

    def timing(self) -> pd.DataFrame:
        """Seconds per step of the RL stages; empty when no stage has them.

        Raises:
            ConfigError: Some stages have them and others not, or a stage has them for other steps than its metrics.
        """
        paths = {stage: self.folder.timing(stage) for stage in RL_STAGES}
        trained = [stage for stage in RL_STAGES if self.folder.metrics(stage).exists()]
        if not any(path.exists() for path in paths.values()):
            return _frame([])
        frames = []
        for stage in trained:
            self._require_timing(stage, paths[stage])
            rows = _steps(paths[stage], stage)
            metrics = _steps(self.folder.metrics(stage), stage)
            if [row["step"] for row in rows] != [row["step"] for row in metrics]:
                raise ConfigError(
                    f"{paths[stage]}: has other steps than {stage}.jsonl beside it; train the stage again"
                )
            frames.append(rows)
        return _frame(frames)

    def samples_files(self) -> dict[str, Path]:
        """Evaluation folder name -> samples file."""
        return _by_training(self.folder.found(self.folder.samples("*")))

    def token_files(self) -> dict[str, Path]:
        """Checkpoint -> token table, in the order of training."""
        return _by_training(self.folder.found(self.folder.tokens("*")))

    def manifest(self, checkpoint: str) -> Manifest | None:
        """The manifest of a checkpoint; None when it is absent."""
        folder = self.folder.checkpoint(checkpoint)
        return Manifest.load(folder) if (folder / MANIFEST).exists() else None

    def manifest_digest(self, folder: Path) -> str | None:
        """sha256 of the current manifest.json of one of its folders; None when it is absent."""
        path = folder / MANIFEST
        return sha256_of(path) if path.exists() else None

    def bench(self, name: str) -> dict[str, Any]:
        """Return the record of a measure of speed; empty when it did not run."""
        folder = self.folder.bench(name)
        if not (folder / MANIFEST).exists():
            return {}
        manifest = verify(folder)
        if manifest.facts.get("run") != self.name:
            raise ConfigError(
                f"{folder}: measured in run {manifest.facts.get('run')}, but {self.folder.facts} is of run "
                f"{self.name}; put the right folder back"
            )
        return read_json(folder / BENCH)

    def arm_files(self) -> list[Path]:
        """Return the records of the arms that the run declares; the ablations store others in the same folder."""
        files = self.folder.found(self.folder.arm("*"))
        declared = self.facts.get("config", {}).get("arms")
        if declared is None:
            return files
        try:
            runs = runs_of(declared)
        except (TypeError, AttributeError):
            raise ConfigError(f"{self.folder.facts}: config.arms is no table; start the run again") from None
        return [path for path in files if path.stem in {run.name for run in runs}]

    def phases_s(self) -> dict[str, float]:
        """Return the seconds of each phase from the run.json of each manifest; phases may overlap."""
        phases: dict[str, float] = {}
        for path in sorted(self.root.glob(f"*/**/{RUN}")):
            seconds = _seconds(path)
            if seconds is not None:
                phases["/".join(path.relative_to(self.root).parts[:-1])] = seconds
        arms = [_seconds(path) or 0.0 for path in self.arm_files()]
        return phases | ({"arms, summed": sum(arms)} if arms else {})

    def _require_timing(self, stage: str, path: Path) -> None:
        """Check the seconds of a finished stage against the digest in its checkpoint's run.json."""
        record = self.folder.checkpoint(stage) / RUN
        if record.exists() and path.exists():
            require_digest(path, read_json(record).get("timing_sha256"), record, "train the stage again")

    def _stage_lines(self, stages: Sequence[str]) -> pd.DataFrame:
        """Return rows of some stages; those of a finished stage must match the digest in its manifest."""
        frames = []
        for stage in stages:
            path = self.folder.metrics(stage)
            manifest = self.manifest(stage)
            if manifest is not None:
                expected = manifest.facts.get("metrics_sha256")
                if expected is not None or path.exists():
                    where = self.folder.checkpoint_manifest(stage)
                    require_digest(path, expected, where, "train the stage again")
            frames.append(_steps(path, stage))
        return _frame(frames)


def _steps(path: Path, stage: str) -> list[dict[str, Any]]:
    """Return the rows of a journal, one per step in order; the last of repeated steps counts.

    Raises:
        ConfigError: A row is of another stage, a number is not finite, or a step is missing in between.
    """
    rows: dict[int, dict[str, Any]] = {}
    for row in read_jsonl(path):
        step = row.get("step")
        if not isinstance(step, int) or isinstance(step, bool) or row.get("stage", stage) != stage:
            raise ConfigError(f"{path}: a row without a step of {stage}; train the stage again")
        for name, value in row.items():
            if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
                raise ConfigError(f"{path}: step {step}: {name} is no number; train the stage again")
        rows[step] = row | {"stage": stage}
    steps = sorted(rows)
    if steps and steps != list(range(steps[0], steps[0] + len(steps))):
        lost = next(step for step in range(steps[0], steps[-1]) if step not in rows)
        raise ConfigError(f"{path}: step {lost} is missing; train the stage again")
    return [rows[step] for step in steps]


def _frame(stages: Sequence[list[dict[str, Any]]]) -> pd.DataFrame:
    rows = [row for part in stages for row in part]
    if not rows:
        return pd.DataFrame({"step": pd.Series(dtype="int64"), "stage": pd.Series(dtype="str")})
    frame = pd.DataFrame(rows).sort_values("step", ignore_index=True)
    return frame


def _seconds(path: Path) -> float | None:
    """Return the seconds in a run.json or an arm's record; None where it names none."""
    seconds = read_json(path).get("seconds")
    if seconds is not None and (not isinstance(seconds, int | float) or seconds < 0):
        raise ConfigError(f"{path}: seconds is no number; rerun the step that writes it")
    return None if seconds is None else float(seconds)


def _by_training(paths: Iterable[Path]) -> dict[str, Path]:
    """Return folder name -> file: checkpoints in the order of training, then the others by name."""
    found = {path.parent.name: path for path in sorted(paths)}
    known = [name for name in CHECKPOINTS if name in found]
    return {name: found[name] for name in known + sorted(set(found) - set(known))}


def find_score(
    scores: list[Score],
    checkpoint: str,
    benchmark: str,
    *,
    metric: str = "avg@",
    control: str = "none",
    grader: str = "strict",
    temperature: float | None = None,
) -> Score | None:
    """Return the score of a checkpoint on a benchmark: temperature nearest to 1, then most questions, then largest k.

    Args:
        scores: All scores of a run.
        checkpoint: base, sft, ...
        benchmark: Its name.
        metric: Exact name, or a prefix that ends in '@'.
        control: none, tool_off, shuffled_golds or mute.
        grader: strict, rstar_compat or loose.
        temperature: Only this sampling temperature.
    """
    found = [
        score
        for score in scores
        if (score.checkpoint, score.benchmark, score.control, score.grader)
        == (checkpoint, benchmark, control, grader)
        and (score.metric.startswith(metric) if metric.endswith("@") else score.metric == metric)
        and (temperature is None or score.temperature == temperature)
    ]
    return min(found, key=lambda s: (abs(s.temperature - 1.0), -s.num_questions, -_k(s.metric)), default=None)


def _k(metric: str) -> int:
    tail = metric.rpartition("@")[2]
    return int(tail) if tail.isdigit() else 0


def _score_order(score: Score) -> tuple[object, ...]:
    order = CHECKPOINTS.index(score.checkpoint) if score.checkpoint in CHECKPOINTS else len(CHECKPOINTS)
    return (
        order,
        score.checkpoint,
        score.benchmark,
        score.control,
        score.metric,
        score.temperature,
        score.grader,
    )
