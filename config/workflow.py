"""What the rules need of the configuration: parameters as canonical JSON, and files written when a run starts."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from config.arms import (
    MAIN,
    ArmRun,
    SamplingGrid,
    ablation_runs,
    config_of_origin,
    configured,
    load_arms,
    view_of_arm,
)
from config.command import one_line_errors
from config.commands import EVALUATE, ORIGIN, Command
from config.model import Config, EvalPlan
from config.resolve import DEFAULTS, decided, merge, read_yaml, resolve_mapping
from records.errors import ConfigError
from records.run_folder import RunFolder
from records.stages import BY_NAME, CHECKPOINTS
from records.usage import SNAKEMAKE, VARIABLE, record_usage

T = TypeVar("T")
_PATH = re.compile(r"[\w./~+@%,:=-]+")
"""What neither the shell nor Snakemake reads as something else."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """The checked configuration of one Snakemake call."""

    config: Config

    @classmethod
    def start(cls, files: Sequence[Path], given: Mapping[str, Any], *, is_main: bool = True) -> Workflow:
        """Resolve the files of `--configfile` and the values of `--config`, and say on standard error which win.

        The files are read again here: Snakemake's own reading of them follows YAML 1.1. A wrong configuration ends the
        call with one line and status 2.

        Args:
            files: in order; later ones win.
            given: values of `--config`, which win over files.
            is_main: false in a job that Snakemake starts itself, which says nothing.
        """
        # Jobs run the interpreter and the commands of the environment that runs Snakemake.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        config = cls._checked(lambda: _resolved(files, given))
        if is_main and (files or given):
            print(precedence(files, given), file=sys.stderr, flush=True)
            replaced = replaced_file(sys.argv, files)
            if replaced:
                print(replaced, file=sys.stderr, flush=True)
        return cls(config)

    @property
    def run(self) -> str:
        """Folder of the run."""
        return f"{self.config.runtime.paths.results}/{self.config.runtime.run}"

    def sections(self, command: Command[Any]) -> str:
        """What a rule passes to its command: the view as canonical JSON."""
        return command.of(self.config).to_json()

    def evaluation_sections(self, checkpoint: str) -> str:
        """As `sections`, with only this checkpoint's plans, so that a plan reruns its own evaluation alone."""
        plans = self.config.eval.plans
        return self._asking({n: plan for n, plan in plans.items() if plan.checkpoint == checkpoint})

    def _asking(self, plans: Mapping[str, EvalPlan]) -> str:
        asked = self.config.eval.model_copy(update={"plans": dict(plans)})
        return EVALUATE.of(self.config).model_copy(update={"eval": asked}).to_json()

    def inputs_of_stage(self, name: str) -> list[str]:
        """Files that an RL stage waits for."""
        stage = BY_NAME[name]
        files = [f"{self.run}/checkpoints/{stage.parent}/manifest.json", f"{self.run}/data/manifest.json"]
        if stage.is_filtered and self.config.rl.filter is not None:
            files.append(f"{self.run}/hard/manifest.json")
        return [*files, f"{self.run}/build/sandbox.json"]

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
        return self._checked(lambda: view_of_arm(self.config, ArmRun(arm, origin, seed))).to_json()

    def origin_sections(self, origin: str) -> str:
        """Sections of an arm's SFT checkpoint."""
        return ORIGIN.of(self._checked(lambda: config_of_origin(self.config, origin))).to_json()

    @property
    def grid(self) -> SamplingGrid:
        """What the ablations sample at several temperatures."""
        return load_arms().sampling_grid

    def grid_sections(self, member: str) -> str:
        """Sections of one member of the sampling grid."""
        return self._asking(self.grid.plans_of(member))

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
        return [name for name in CHECKPOINTS if name in named]

    def begin(self, rules: Collection[str], require: Callable[[Config, Collection[str]], None]) -> None:
        """Ask whether this machine has what the jobs need, then leave their files; else one line and status 2.

        Args:
            rules: whose jobs will run.
            require: raises ConfigError for what is missing (`trainer.start.require_start`).
        """
        with one_line_errors():
            require(self.config, rules)
            self.write_start()
        os.environ[VARIABLE] = os.path.abspath(RunFolder(Path(self.run)).usage)
        record_usage(SNAKEMAKE)

    def write_start(self) -> None:
        """Leave runtime.json for the jobs and run.json for the report."""
        folder = Path(self.run)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runtime.json").write_text(self.config.runtime.model_dump_json(), encoding="utf-8")
        started = {
            "run": self.config.runtime.run,
            "preset": self.config.runtime.preset,
            "started_unix": time.time(),
            "config": self.config.model_dump(mode="json"),
        }
        (folder / "run.json").write_text(json.dumps(started, indent=1, sort_keys=True), encoding="utf-8")


def precedence(files: Sequence[Path], given: Mapping[str, Any]) -> str:
    """One line: what a configuration was made of, the weakest first.

    >>> precedence([Path("config/small.yaml"), Path("my.yaml")], {"runtime": {"run": "x"}})
    'configuration: config/tiny.yaml < config/small.yaml < my.yaml < --config runtime (the last to give a key wins)'
    """
    named = [os.path.relpath(path) for path in files]
    named = [f"config/{DEFAULTS.name}", *(name for name in named if name != f"config/{DEFAULTS.name}")]
    if given:
        named.append(f"--config {' '.join(given)}")
    return f"configuration: {' < '.join(named)} (the last to give a key wins)"


def replaced_file(arguments: Sequence[str], files: Sequence[Path]) -> str | None:
    """A line when `--configfile` took the place of a profile's own file, which Snakemake does without a word."""
    for number, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option not in ("--profile", "--workflow-profile"):
            continue
        profile = Path(value if equals else "".join(arguments[number + 1 : number + 2]))
        try:
            settings = read_yaml(profile / "config.yaml")
        except ConfigError:
            continue
        own = settings.get("configfile") or []
        for name in [own] if isinstance(own, str) else own:
            if Path(name).absolute() not in [Path(path).absolute() for path in files]:
                return (
                    f"note: --configfile replaces {name} of {profile}; to keep both: --configfile {name} "
                    + " ".join(os.path.relpath(path) for path in files)
                )
    return None


def _resolved(files: Sequence[Path], given: Mapping[str, Any]) -> Config:
    merged = read_yaml(DEFAULTS)
    for path in files:
        merged = merge(merged, read_yaml(Path(path)))
    source = ", ".join([*(os.path.relpath(path) for path in files), *(["--config"] if given else [])])
    config = decided(resolve_mapping(merge(merged, given), source=source or DEFAULTS.name))
    results = config.runtime.paths.results
    if not _PATH.fullmatch(results):
        raise ConfigError(
            f"runtime.paths.results = {results!r} holds a blank or a sign that the shell or Snakemake reads otherwise; "
            "take another folder"
        )
    return config
