"""A run folder read from disk: manifests, metrics, scores, samples, token tables and benches.

Layout under results/<run>/: data/, checkpoints/<checkpoint>/, metrics/<stage>.jsonl, eval/<plan>/, score/<checkpoint>/,
bench/, build/. Everything but `eval` may be absent: an unfinished run can be looked at too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from config.arms import MAIN, ArmRun

CHECKPOINTS = ("base", "sft", "rl1", "rl2", "rl3")
STAGES = ("sft", "rl1", "rl2", "rl3")
RL_STAGES = ("rl1", "rl2", "rl3")
RINGS = ("procedural-numbers", "procedural-composition", "procedural-family")
CONTROLS = ("none", "tool_off", "shuffled_golds", "mute")
SCORE_FIELDS = (
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
)


class BadRun(ValueError):
    """A stored result is missing or unreadable; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One row of report.json's scores, with the outcomes behind it."""

    checkpoint: str
    benchmark: str
    metric: str
    """avg@4, pass@16, chance, ..."""
    temperature: float
    control: str
    value: float
    low: float
    high: float
    num_questions: int
    num_samples: int
    grader: str
    questions: Mapping[str, list[float]] = field(default_factory=dict)
    """Question -> outcomes of its samples; empty where the summary has none."""

    def to_json(self) -> dict[str, Any]:
        """The row as report.json has it: without the outcomes."""
        return {name: getattr(self, name) for name in SCORE_FIELDS}


@dataclass(frozen=True, slots=True)
class Run:
    """Reads one run folder; nothing is cached, nothing is written."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> Run:
        """Check that `root` looks like a run.

        Raises:
            BadRun: It is no folder, or holds neither scores nor metrics.
        """
        if not root.is_dir():
            raise BadRun(f"{root}: no such run folder; give results/<run>")
        run = cls(root)
        if not run.summaries() and not any((root / "metrics").glob("*.jsonl")):
            raise BadRun(f"{root}: neither eval/*/summary.json nor metrics/*.jsonl; run the evaluation first")
        return run

    @property
    def facts(self) -> dict[str, Any]:
        """run.json at the top: run, preset, started_unix; empty when the run was not started by the workflow."""
        return read_json(self.root / "run.json", default={})

    @property
    def name(self) -> str:
        return str(self.facts.get("run", self.root.resolve().name))

    @property
    def preset(self) -> str:
        return str(self.facts.get("preset", self.name))

    def summaries(self) -> list[Path]:
        return sorted(self.root.glob("eval/*/summary.json"))

    def scores(self) -> list[Score]:
        """Every score of every evaluation, in a fixed order."""
        rows = [score for path in self.summaries() for score in read_scores(path)]
        return sorted(rows, key=_score_order)

    def unavailable(self) -> list[dict[str, str]]:
        """Benchmarks that were not evaluated and how to get them, each once."""
        found: dict[str, str] = {}
        for path in sorted(self.root.glob("eval/*/unavailable.json")):
            for row in read_json(path):
                found.setdefault(row["benchmark"], row["how"])
        return [{"benchmark": name, "how": found[name]} for name in sorted(found)]

    def metrics(self) -> pd.DataFrame:
        """Metrics of the RL stages, one row per step, sorted; empty when none was trained."""
        return self._stage_lines(RL_STAGES, "metrics/{}.jsonl")

    def sft_metrics(self) -> pd.DataFrame:
        return self._stage_lines(("sft",), "metrics/{}.jsonl")

    def timing(self) -> pd.DataFrame:
        """Seconds per step of the RL stages."""
        return self._stage_lines(RL_STAGES, "metrics/{}.timing.jsonl")

    def samples_files(self) -> dict[str, Path]:
        """Evaluation folder name -> samples file."""
        return _by_training(self.root.glob("eval/*/samples.parquet"))

    def token_files(self) -> dict[str, Path]:
        """Checkpoint -> token table, in the order of training."""
        return _by_training(self.root.glob("score/*/tokens.parquet"))

    def manifest(self, checkpoint: str) -> dict[str, Any]:
        return read_json(self.root / "checkpoints" / checkpoint / "manifest.json", default={})

    def manifest_digest(self, folder: str) -> str | None:
        """sha256 of a folder's manifest.json as it lies there; None when it is absent."""
        path = self.root / folder / "manifest.json"
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None

    def bench(self, name: str) -> dict[str, Any]:
        """bench/<name>.json; empty when that bench did not run."""
        return read_json(self.root / "bench" / f"{name}.json", default={})

    def arm_files(self) -> list[Path]:
        """Records of the arms that the run itself declares; the ablations lay others beside them."""
        files = sorted(self.root.glob("arms/*.json"))
        declared = self.facts.get("config", {}).get("arms")
        if declared is None:
            return files
        runs = [ArmRun(arm, MAIN, seed) for arm in declared["names"] for seed in range(declared["seeds"])]
        return [path for path in files if path.stem in {run.name for run in runs}]

    def phases_s(self) -> dict[str, float]:
        """Seconds of each phase from the run.json beside each manifest; phases may overlap."""
        phases: dict[str, float] = {}
        for path in sorted(self.root.glob("*/**/run.json")):
            seconds = read_json(path).get("seconds")
            if seconds is not None:
                phases["/".join(path.relative_to(self.root).parts[:-1])] = float(seconds)
        arms = [read_json(path).get("seconds", 0.0) for path in self.arm_files()]
        return phases | ({"arms, summed": sum(arms)} if arms else {})

    def _stage_lines(self, stages: tuple[str, ...], pattern: str) -> pd.DataFrame:
        frames = []
        for stage in stages:
            lines = read_jsonl(self.root / pattern.format(stage))
            if lines:
                frames.append(pd.DataFrame(lines).assign(stage=stage))
        if not frames:
            return pd.DataFrame({"step": pd.Series(dtype="int64"), "stage": pd.Series(dtype="str")})
        frame = pd.concat(frames, ignore_index=True)
        return frame.drop_duplicates(["stage", "step"], keep="last").sort_values("step", ignore_index=True)


def _by_training(paths: Iterable[Path]) -> dict[str, Path]:
    """Folder name -> file: checkpoints in the order of training, then the others by name."""
    found = {path.parent.name: path for path in sorted(paths)}
    known = [name for name in CHECKPOINTS if name in found]
    return {name: found[name] for name in known + sorted(set(found) - set(known))}


def read_scores(path: Path) -> list[Score]:
    """Scores of one summary.json: an object with `scores`, or the bare list.

    Raises:
        BadRun: Not a summary, or a row lacks a field.
    """
    loaded = read_json(path)
    rows = loaded.get("scores") if isinstance(loaded, dict) else loaded
    if not isinstance(rows, list):
        raise BadRun(f"{path}: no list of scores; write it with python -m verifier evaluate")
    scores = []
    for row in rows:
        missing = [name for name in SCORE_FIELDS if name not in row]
        if missing:
            raise BadRun(
                f"{path}: a score lacks {', '.join(missing)}; write it with python -m verifier evaluate"
            )
        scores.append(
            Score(**{name: row[name] for name in SCORE_FIELDS}, questions=row.get("questions") or {})
        )
    return scores


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
    """The score of a checkpoint on a benchmark: nearest to temperature 1, then of most questions, then of largest k.

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


def read_json(path: Path, default: Any = None) -> Any:
    """Parse one JSON file; `default` (unless None) stands for a missing one.

    Raises:
        BadRun: Missing without a default, or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if default is None:
            raise BadRun(f"{path}: missing; run the step that writes it") from None
        return default
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadRun(f"{path}: not JSON ({error}); delete it and rerun the step that writes it") from None


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Parse a file of one JSON object per line; a missing file is empty."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise BadRun(f"{path}: line {number} is not JSON ({error}); delete it and rerun") from None
    return rows


def write_manifest(folder: Path, facts: object) -> None:
    """Write folder/manifest.json last: sha256 of every file below it, and `facts`. No dates."""
    files = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json" and not path.name.endswith(".part")
    }
    write_json(folder / "manifest.json", {"schema": 1, "files": files, "facts": facts})


def write_json(path: Path, value: object) -> None:
    """Write sorted, indented JSON through a temporary file, so that a reader never sees half of it.

    What is not a finite number (the interval of a single value has no end) becomes null: JSON has no infinity.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(
        json.dumps(_finite(value), indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8"
    )
    part.replace(path)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
