"""What the rules need of the configuration: parameters as canonical JSON, and files written when a run starts."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from config.arms import (
    MAIN,
    ORIGIN_SECTIONS,
    ArmRun,
    SamplingGrid,
    ablation_runs,
    config_of_arm,
    config_of_origin,
    configured,
    load_arms,
    stage_sections,
)
from config.errors import ConfigError
from config.model import Config
from config.resolve import resolve_mapping
from config.sections import canonical, sections_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workflow:
    """The checked configuration of one Snakemake call."""

    config: Config

    @classmethod
    def start(cls, mapping: Mapping[str, Any]) -> Workflow:
        """Check Snakemake's `config`; a wrong one ends the call with one line and status 2."""
        # Jobs run the interpreter and the commands of the environment that runs Snakemake.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return cls(cls._checked(lambda: resolve_mapping(mapping)))

    @property
    def run(self) -> str:
        """Folder of the run."""
        return f"{self.config.runtime.paths.results}/{self.config.runtime.run}"

    def sections(self, names: Sequence[str]) -> str:
        return sections_json(self.config, names)

    def evaluation_sections(self, checkpoint: str) -> str:
        """As `sections`, with only this checkpoint's plans, so that a plan reruns its own evaluation alone."""
        sections = json.loads(self.sections(("rollout", "sandbox", "eval", "analysis")))
        plans = sections["eval"]["plans"]
        sections["eval"]["plans"] = {n: plan for n, plan in plans.items() if plan["checkpoint"] == checkpoint}
        return canonical(sections)

    @property
    def sft_threads(self) -> int:
        """Cores that SFT keeps busy."""
        threads = self.config.runtime.threads
        return threads.sft * threads.micro_batches

    @property
    def arms(self) -> list[str]:
        """Names of the default run's experiment arms."""
        return [run.name for run in self._checked(lambda: configured(self.config))]

    @property
    def ablations(self) -> list[str]:
        """Names of all arms of the ablations."""
        return [run.name for run in ablation_runs()]

    def arm_sections(self, arm: str, origin: str, seed: int) -> str:
        """Sections of one arm: its stages as the arm changes them, tested as the plan for rl1 says."""
        run = ArmRun(arm, origin, seed)
        changed = self._checked(lambda: config_of_arm(self.config, run))
        sections = json.loads(sections_json(changed, (*stage_sections(run), "eval")))
        sections["eval"]["plans"] = {"rl1": sections["eval"]["plans"]["rl1"]}
        return canonical(sections)

    def origin_sections(self, origin: str) -> str:
        """Sections of an arm's SFT checkpoint."""
        changed = self._checked(lambda: config_of_origin(self.config, origin))
        return sections_json(changed, ORIGIN_SECTIONS)

    @property
    def grid(self) -> SamplingGrid:
        """What the ablations sample at several temperatures."""
        return load_arms().sampling_grid

    def grid_sections(self, member: str) -> str:
        """Sections of one member of the sampling grid."""
        sections = json.loads(self.sections(("rollout", "sandbox", "eval", "analysis")))
        sections["eval"]["plans"] = self.grid.plans_of(member)
        return canonical(sections)

    def grid_checkpoint(self, member: str) -> str:
        """Folder of a member's checkpoint."""
        folder = f"{self.run}/origins/{member}" if member in self.grid.origins else self.run
        return f"{folder}/checkpoints/{self.grid.stage_of(member)}"

    def sft_of(self, origin: str) -> str:
        """Manifest of the SFT checkpoint that arms of an origin start from."""
        folder = self.run if origin == MAIN else f"{self.run}/origins/{origin}"
        return f"{folder}/checkpoints/sft/manifest.json"

    @staticmethod
    def _checked(read: Callable[[], T]) -> T:
        """What `read` gives; a configuration error ends the call with one line and status 2."""
        try:
            return read()
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(2)

    @property
    def evaluated(self) -> list[str]:
        """Checkpoints that some plan names, in order of training."""
        named = {plan.checkpoint for plan in self.config.eval.plans.values()}
        return [name for name in ("base", "sft", "rl1", "rl2", "rl3") if name in named]

    def write_start(self) -> None:
        """Leave runtime.json for the jobs and run.json for the report."""
        folder = Path(self.run)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runtime.json").write_text(self.sections(("runtime",)), encoding="utf-8")
        started = {
            "run": self.config.runtime.run,
            "preset": self.config.runtime.preset,
            "started_unix": time.time(),
            "config": self.config.model_dump(mode="json"),
        }
        (folder / "run.json").write_text(json.dumps(started, indent=1, sort_keys=True), encoding="utf-8")
