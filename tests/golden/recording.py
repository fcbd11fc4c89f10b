"""`Recording`: what a short run computed, in the form that the golden files keep.

A golden holds numbers of one kind of processor, because rounding differs between kinds and each difference grows over
the steps. On the recorded kind everything is compared exactly. On another kind only values without rounding are:
problems, documents, the untrained weights, the names of the metrics.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq

GOLDEN = Path(__file__).parent
STAGES = ("base", "sft", "rl1", "rl2", "rl3")


def processor_kind() -> str:
    """Vendor and vector width of this processor, such as `intel-avx512`; runs on one kind are equal to the last bit."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    vendor = "amd" if "AuthenticAMD" in text else "intel" if "GenuineIntel" in text else platform.machine()
    width = "avx512" if "avx512f" in text else "avx2" if "avx2" in text else "sse"
    return f"{vendor}-{width}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Numbers of one run of one preset."""

    preset: str
    data: str
    """sha256 of the file digests of the problems."""
    corpus: str
    weights: dict[str, str]
    """Stage -> sha256 of model.safetensors."""
    metrics: dict[str, list[dict[str, Any]]]
    """RL stage -> metrics of each step."""
    trajectory: list[str]
    """The first rollout of stage 1: its turns and tool responses, as text, line by line."""

    @classmethod
    def of(cls, folder: Path, preset: str) -> Self:
        """Read the folder of a finished run."""
        weights = {
            name: _manifest(folder / "checkpoints" / name)["files"]["model.safetensors"]
            for name in STAGES
            if (folder / "checkpoints" / name).is_dir()
        }
        stages = [name for name in STAGES if (folder / "metrics" / f"{name}.jsonl").is_file()]
        return cls(
            preset=preset,
            data=json.dumps(_manifest(folder / "data")["files"], sort_keys=True),
            corpus=json.dumps(_manifest(folder / "corpus")["files"], sort_keys=True),
            weights=weights,
            metrics={
                name: _steps(folder / "metrics" / f"{name}.jsonl") for name in stages if name.startswith("rl")
            },
            trajectory=_first_trajectory(folder / "trajectories" / "rl1.parquet"),
        )

    @classmethod
    def load(cls, preset: str, kind: str) -> Self | None:
        """The golden of this preset and kind of processor, None where none was recorded."""
        path = golden_path(preset, kind)
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def write(self, kind: str) -> Path:
        path = golden_path(self.preset, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return path


def golden_path(preset: str, kind: str) -> Path:
    return GOLDEN / preset / f"{kind}.json"


def moved(old: Recording, new: Recording, *, exact: bool) -> list[str]:
    """One line per number that differs; without `exact` only values without rounding."""
    lines = [f"{name}: differs" for name in ("data", "corpus") if getattr(old, name) != getattr(new, name)]
    stages = STAGES if exact else ("base",)
    lines += [
        f"weights of {name}: {_short(old.weights.get(name))} -> {_short(new.weights.get(name))}"
        for name in stages
        if old.weights.get(name) != new.weights.get(name)
    ]
    for stage in sorted(old.metrics.keys() | new.metrics.keys()):
        lines += _moved_metrics(stage, old.metrics.get(stage, []), new.metrics.get(stage, []), exact=exact)
    if exact:
        pairs = zip(old.trajectory, new.trajectory, strict=False)
        lines += [f"trajectory: {a!r} -> {b!r}" for a, b in pairs if a != b][:3]
        if len(old.trajectory) != len(new.trajectory):
            lines.append(f"trajectory: {len(old.trajectory)} lines -> {len(new.trajectory)} lines")
    return lines


def _moved_metrics(
    stage: str, old: list[dict[str, Any]], new: list[dict[str, Any]], *, exact: bool
) -> list[str]:
    if len(old) != len(new):
        return [f"metrics of {stage}: {len(old)} steps -> {len(new)} steps"]
    if not exact:
        return []
    return [
        f"{stage} step {number}: {name} {before.get(name)} -> {after.get(name)}"
        for number, (before, after) in enumerate(zip(old, new, strict=True), 1)
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def _steps(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _first_trajectory(path: Path) -> list[str]:
    row = pq.read_table(path, columns=["problem", "sample", "stop", "reward", "turns", "ids"]).slice(0, 1)
    (record,) = row.to_pylist()
    lines = [
        f"problem {record['problem']} sample {record['sample']}: {record['stop']}, reward {record['reward']}"
    ]
    for turn in record["turns"]:
        lines.append(f"turn {turn['start']}-{turn['end']} {turn['call']}: {turn['text']}")
        if turn["result"] is not None:
            lines.append(f"result {turn['result']['status']}: {turn['result']['stdout']}")
    return [*lines, " ".join(map(str, record["ids"]))]


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "none"
