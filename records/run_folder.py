"""`RunFolder`: paths in the folder of one run, shared by rules, trainer and analysis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """results/<run>."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def data(self) -> Path:
        """Problems of every split, one JSONL each, and their manifest."""
        return self.root / "data"

    @property
    def corpus(self) -> Path:
        """Teacher documents."""
        return self.root / "corpus"

    @property
    def hard(self) -> Path:
        """Problems that the filter kept for stage 3."""
        return self.root / "hard"

    def checkpoint(self, name: str) -> Path:
        return self.root / "checkpoints" / name

    def metrics(self, stage: str) -> Path:
        return self.root / "metrics" / f"{stage}.jsonl"

    def timing(self, stage: str) -> Path:
        return self.root / "metrics" / f"{stage}.timing.jsonl"

    def trajectories(self, stage: str) -> Path:
        return self.root / "trajectories" / f"{stage}.parquet"

    def evaluation(self, checkpoint: str) -> Path:
        return self.root / "eval" / checkpoint

    def score(self, checkpoint: str) -> Path:
        return self.root / "score" / checkpoint

    def arm(self, name: str) -> Path:
        """Summary of one experiment arm."""
        return self.root / "arms" / f"{name}.json"

    @property
    def origins(self) -> Path:
        """Run folders of the additional SFT checkpoints from which arms start."""
        return self.root / "origins"

    def work(self, job: str) -> Path:
        """Undeclared working folder of a resumable job."""
        return self.root / "work" / job

    @property
    def usage(self) -> Path:
        """CPU-seconds of each job, one JSON line each; no rule declares this file or depends on it."""
        return self.root / "logs" / "usage.jsonl"

    @property
    def near_limit_calls(self) -> Path:
        """Recorded results of tool calls near their time limit, for all jobs of the run."""
        return self.root / "work" / "near_limit_calls.jsonl"

    @property
    def equal_calls(self) -> Path:
        """Recorded results of pure tool calls, for all jobs of the run."""
        return self.root / "work" / "equal_calls.jsonl"
