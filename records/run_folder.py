"""`RunFolder`: where everything of one run lies. Rules, jobs and the analysis take every path from here.

A name may hold a wildcard of Snakemake (`{checkpoint}`) or of `found` (`*`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from records.files import free_name, read_json
from records.manifest import MANIFEST, RUN

SUMMARY = "summary.json"
"""Written last: an evaluation folder with it is finished."""
SAMPLES = "samples.parquet"
TOKENS = "tokens.parquet"
REPORT = "report.json"
PAGE = "index.html"
ENTROPY = "entropy.json"
CLAIMS = "claims.json"
BENCH = "record.json"
LAYOUT = 2
"""Of this arrangement, named in run.json. 1: measures of speed were files, and run.json named no layout."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """results/<run>."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    def found(self, path: Path) -> list[Path]:
        """Existing paths of this folder that match one with `*`, in order of their names."""
        return sorted(self.root.glob(path.relative_to(self.root).as_posix()))

    # --- what the workflow leaves for all jobs ---

    @property
    def facts(self) -> Path:
        """What the call of Snakemake was started with."""
        return self.root / RUN

    @property
    def runtime(self) -> Path:
        """The section `runtime`, for every job."""
        return self.root / "runtime.json"

    @property
    def logs(self) -> Path:
        """Outputs of all jobs."""
        return self.root / "logs"

    def log(self, job: str) -> Path:
        """Output of one job."""
        return self.logs / f"{job}.log"

    @property
    def usage(self) -> Path:
        """CPU-seconds of each job, one JSON line each; no rule declares it and nothing depends on it."""
        return self.logs / "usage.jsonl"

    @property
    def working(self) -> Path:
        """Working folders of all jobs; no rule declares them."""
        return self.root / "work"

    def work(self, job: str) -> Path:
        """Working folder of a resumable job."""
        return self.working / job

    @property
    def near_limit_calls(self) -> Path:
        """Recorded results of tool calls near their time limit, for all jobs of the run."""
        return self.work("near_limit_calls.jsonl")

    @property
    def equal_calls(self) -> Path:
        """Recorded results of pure tool calls, for all jobs of the run."""
        return self.work("equal_calls.jsonl")

    # --- data and training ---

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

    def checkpoint_manifest(self, name: str) -> Path:
        """Written last: the checkpoint is whole."""
        return self.checkpoint(name) / MANIFEST

    def metrics(self, stage: str) -> Path:
        return self.root / "metrics" / f"{stage}.jsonl"

    def timing(self, stage: str) -> Path:
        return self.root / "metrics" / f"{stage}.timing.jsonl"

    def trajectories(self, stage: str) -> Path:
        return self.root / "trajectories" / f"{stage}.parquet"

    @property
    def origins(self) -> Path:
        """Run folders of the additional SFT checkpoints from which arms start."""
        return self.root / "origins"

    def origin(self, name: str) -> RunFolder:
        """One of `origins`."""
        return RunFolder(self.origins / name)

    @property
    def arms(self) -> Path:
        """Records of experiment arms."""
        return self.root / "arms"

    def arm(self, name: str) -> Path:
        """Record of one experiment arm."""
        return self.arms / f"{name}.json"

    # --- evaluation ---

    def evaluation(self, checkpoint: str) -> Path:
        return self.root / "eval" / checkpoint

    def summary(self, checkpoint: str) -> Path:
        return self.evaluation(checkpoint) / SUMMARY

    def samples(self, checkpoint: str) -> Path:
        return self.evaluation(checkpoint) / SAMPLES

    @property
    def grid(self) -> Path:
        """Evaluations of the sampling grid."""
        return self.root / "grid"

    def score(self, checkpoint: str) -> Path:
        return self.root / "score" / checkpoint

    def tokens(self, checkpoint: str) -> Path:
        """Table of scored tokens."""
        return self.score(checkpoint) / TOKENS

    # --- checks and measures of this machine ---

    def build(self, name: str) -> Path:
        """What a check of the machine found."""
        return self.root / "build" / f"{name}.json"

    def bench(self, name: str) -> Path:
        """Folder of a measure of speed."""
        return self.root / "bench" / name

    # --- analysis ---

    @property
    def entropy(self) -> Path:
        return self.root / "entropy"

    @property
    def entropy_numbers(self) -> Path:
        return self.entropy / ENTROPY

    @property
    def claims(self) -> Path:
        return self.root / "claims"

    @property
    def verdicts_on_claims(self) -> Path:
        return self.claims / CLAIMS

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def ablations(self) -> Path:
        return self.root / "ablations"

    @property
    def report(self) -> Path:
        """Folder of index.html and report.json."""
        return self.root / "report"

    @property
    def checks(self) -> Path:
        """What `verify` found."""
        return self.root / "verify.json"

    @property
    def gate(self) -> Path:
        """Written where every check holds."""
        return self.root / "gate.json"

    def set_earlier_aside(self) -> Path | None:
        """Move the folder to `.old` beside it if run.json is of an earlier layout.

        Returns:
            Where it lies now; None if it has this layout, or was not started by the workflow.
        """
        if not self.facts.is_file() or read_json(self.facts).get("layout") == LAYOUT:
            return None
        aside = free_name(self.root, "earlier")
        self.root.replace(aside)
        return aside
