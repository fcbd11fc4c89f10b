"""`ArmRecord`: arms/ARM-ORIGIN-SEED.json, which `evaluation arm` writes and `analysis` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from records.errors import ConfigError
from records.machine import Machine
from records.stored import Stored, read_record, write_record

REMEDY = "delete it and run the arm again"
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(Stored):
    """One step: the cost so far in four units, and the results."""

    step: Annotated[int, Field(ge=1)]
    rollouts: Annotated[float, Field(ge=0)]
    sampled_tokens: Annotated[float, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0)]
    """Seconds of rollout and update on the machine of the run."""
    accuracy: Share | None = None
    tool_error_frac_correct: Share | None = None
    response_len_correct_mean: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRecord(Stored):
    """Result of one run of one experiment arm."""

    arm: str
    origin: str
    """Origin of its SFT checkpoint: main, or another origin of arms.yaml."""
    seed: Annotated[int, Field(ge=0)]
    text: str
    """Description of the arm's changes."""
    endpoints: dict[str, float]
    """See `evaluation.experiments.endpoints`; an endpoint without a case is absent."""
    curve: list[CurvePoint]
    seconds: float | None = None
    """Wall seconds of the last attempt; None for the main run's own stage."""
    run: str | None = None
    """Name of the run; None in the stored baselines."""
    parent: str | None = None
    """Digest of the SFT checkpoint; None in the stored baselines."""
    corpus: str | None = None
    """Digest of the documents that the SFT checkpoint learnt from."""
    machine: Machine | None = None
    """None in records that were stored without it."""
    outcomes: dict[str, dict[str, Share]] = field(default_factory=dict)
    """Test ring -> question -> mean outcome after the last step; empty in records that were stored without it."""

    @property
    def name(self) -> str:
        return f"{self.arm}-{self.origin}-{self.seed}"

    @property
    def pair(self) -> tuple[str, int]:
        """Return the key by which two arms are paired."""
        return self.origin, self.seed

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read one record; ConfigError if it is no record, has another name, or its curve goes back."""
        record = read_record(cls, path, REMEDY)
        if path.stem != record.name:
            raise ConfigError(f"{path}: is the record of {record.name}; {REMEDY}")
        steps = [point.step for point in record.curve]
        if steps != sorted(set(steps)):
            raise ConfigError(f"{path}: the steps of its curve do not rise; {REMEDY}")
        return record

    def write(self, path: Path) -> None:
        write_record(path, self)
