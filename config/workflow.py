"""`Workflow`: the configuration for the rules: parameters as canonical JSON, and files written as a run starts."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from config.mapping import merge, read_yaml, resolve_mapping
from config.model import Config, EvalPlan
from config.resolve import DEFAULTS, decided
from records import job_server
from records.errors import ConfigError
from records.evaluation import POOLED, EvaluationSummary
from records.files import write_json, write_text
from records.machine import this_machine
from records.manifest import MANIFEST
from records.run_folder import LAYOUT, RunFolder
from records.run_progress import RunProgress, fold_lines
from records.stages import BY_NAME, CHECKPOINTS, RL_STAGES, TRAINED
from records.usage import SNAKEMAKE, VARIABLE, record_usage

T = TypeVar("T")
_SERVED = (("trainer", "evaluation"), ("analysis",))
"""Packages whose jobs share the imports of one job server."""
_PATH = re.compile(r"[\w./~+@%,:=-]+")
"""Characters without a special meaning in the shell and in Snakemake."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """The checked configuration of one Snakemake call."""

    config: Config

    @classmethod
    def start(
        cls, files: Sequence[Path], given: Mapping[str, Any], *, is_main: bool = True, folds: bool = False
    ) -> Workflow:
        """Resolve the files of `--configfile` and the values of `--config`, and report their order on standard error.

        It reads the files itself, because Snakemake reads them as YAML 1.1. A wrong configuration ends the call with
        one line and status 2.

        Args:
            files: in order; later ones override earlier ones.
            given: values of `--config`, which override files.
            folds: keep Snakemake's lines on jobs and rules off the screen.
            is_main: false in a job that Snakemake starts itself, which reports nothing.
        """
        # Jobs run the interpreter and the commands of the environment that runs Snakemake.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        if folds:
            fold_lines()
        config = cls._checked(lambda: _resolved(files, given))
        if is_main and (files or given):
            print(precedence(files, given), file=sys.stderr, flush=True)
            replaced = replaced_file(sys.argv, files)
            if replaced:
                print(replaced, file=sys.stderr, flush=True)
        return cls(config)

    @property
    def folder(self) -> RunFolder:
        """Return where everything of the run lies."""
        return self.config.runtime.folder

    def sections(self, command: Command[Any]) -> str:
        """Return the parameter of a command: its view as canonical JSON."""
        return command.of(self.config).to_json()

    def evaluation_sections(self, checkpoint: str) -> str:
        """Return `sections` with this checkpoint's plans only, so that a changed plan reruns only its evaluation."""
        plans = self.config.eval.plans
        return self._asking({n: plan for n, plan in plans.items() if plan.checkpoint == checkpoint})

    def _asking(self, plans: Mapping[str, EvalPlan]) -> str:
        asked = self.config.eval.model_copy(update={"plans": dict(plans)})
        return EVALUATE.of(self.config).model_copy(update={"eval": asked}).to_json()

    def inputs_of_stage(self, name: str) -> list[Path]:
        """Return the files that an RL stage waits for."""
        stage, folder = BY_NAME[name], self.folder
        files = [folder.checkpoint_manifest(stage.parent or ""), folder.data / MANIFEST]
        if stage.is_filtered and self.config.rl.filter is not None:
            files.append(folder.hard / MANIFEST)
        return [*files, folder.build("sandbox")]

    @property
    def sft_threads(self) -> int:
        """Return the number of cores that SFT uses."""
        runtime = self.config.runtime
        return runtime.threads * runtime.micro_batches

    @property
    def arms(self) -> list[str]:
        """Return the names of the default run's experiment arms."""
        return [run.name for run in self._checked(lambda: configured(self.config))]

    @property
    def ablations(self) -> list[str]:
        """Return the names of all arms of the ablations."""
        return [run.name for run in ablation_runs()]

    def arm_sections(self, arm: str, origin: str, seed: int) -> str:
        """Return the sections of one arm: its changed stages, and the test plan of rl1."""
        return self._checked(lambda: view_of_arm(self.config, ArmRun(arm, origin, seed))).to_json()

    def origin_sections(self, origin: str) -> str:
        """Return the sections of an arm's SFT checkpoint."""
        return ORIGIN.of(self._checked(lambda: config_of_origin(self.config, origin))).to_json()

    @property
    def grid(self) -> SamplingGrid:
        """Return the samplings of the ablations at several temperatures."""
        return load_arms().sampling_grid

    def grid_sections(self, member: str) -> str:
        """Return the sections of one member of the sampling grid."""
        return self._asking(self.grid.plans_of(member))

    def grid_checkpoint(self, member: str) -> Path:
        """Return the folder of a member's checkpoint."""
        folder = self.folder.origin(member) if member in self.grid.origins else self.folder
        return folder.checkpoint(self.grid.stage_of(member))

    def sft_of(self, origin: str) -> Path:
        """Return the manifest of the SFT checkpoint from which arms of an origin start."""
        folder = self.folder if origin == MAIN else self.folder.origin(origin)
        return folder.checkpoint_manifest("sft")

    @staticmethod
    def _checked(read: Callable[[], T]) -> T:
        """Return the result of `read`; a configuration error ends the call with one line and status 2."""
        try:
            return read()
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(2)

    @property
    def evaluated(self) -> list[str]:
        """Return the checkpoints of all plans, in order of training."""
        named = {plan.checkpoint for plan in self.config.eval.plans.values()}
        return [name for name in CHECKPOINTS if name in named]

    def begin(
        self,
        jobs: Sequence[tuple[str, str | None]],
        require: Callable[[Config, Collection[str]], None],
        *,
        is_local: bool,
        is_verbose: bool,
    ) -> None:
        """Check the requirements of the jobs, then write their files; a missing one gives one line and status 2.

        Args:
            jobs: rule and shell command of each job that will run.
            require: raises ConfigError for a missing requirement (`trainer.start.require_start`).
            is_local: whether the jobs run on this machine, where they can share their imports.
            is_verbose: whether Snakemake's own lines stay in the place of a line over all jobs.
        """
        rules = [rule for rule, command in jobs if command]
        with one_line_errors():
            aside = self.folder.set_earlier_aside()
            if aside is not None:
                raise ConfigError(
                    f"{self.folder.root}: is of an earlier layout and is set aside as {aside}; run the same command "
                    "again"
                )
            require(self.config, {rule for rule, _ in jobs})
            self.write_start()
        os.environ[VARIABLE] = os.path.abspath(self.folder.usage)
        record_usage(SNAKEMAKE)
        # A process that is to use a GPU cannot be forked from one that may have touched it.
        if is_local and self.config.runtime.device == "cpu":
            for packages in _SERVED:
                if any(f"python -m {name} " in (command or "") for _, command in jobs for name in packages):
                    job_server.start(*packages)
        if rules and not is_verbose:
            print(self._opening(rules), file=sys.stderr, flush=True)
            RunProgress(rules, self._outcome).start()

    def _opening(self, rules: Sequence[str]) -> str:
        """Return what the run does, in one line."""
        trained = [rule for rule in TRAINED if rule in rules]
        tested = sum(rule.startswith("evaluate") for rule in rules)
        parts = [f"{len(rules)} job{'s' * (len(rules) > 1)} into {self.folder.root}"]
        parts += [f"trains {', '.join(trained)}"] if trained else []
        parts += [f"tests {tested} checkpoints"] if tested else []
        parts += [f"compares {rules.count('arm')} arms"] if "arm" in rules else []
        head = f"{self.config.runtime.run}: {'; '.join(parts)}"
        return f"{head}. Logs: {self.folder.logs}. Snakemake's own lines: --verbose"

    def _outcome(self, rule: str, name: str) -> str:
        """Return the accuracy after a stage or an evaluation; empty for another job."""
        folder = self.folder
        try:
            if rule in RL_STAGES:
                last = folder.metrics(rule).read_text(encoding="utf-8").splitlines()[-1]
                return f"accuracy {json.loads(last)['accuracy']:.3f} on its last training step"
            if rule.startswith("evaluate"):
                summary = EvaluationSummary.load(folder.evaluation(name.rpartition("-")[2]))
                for score in summary.scores:
                    if (score.benchmark, score.control) == (POOLED, "none") and score.metric.startswith(
                        "avg@"
                    ):
                        return f"accuracy {score.value:.3f} on {score.num_questions} test questions"
        except (ConfigError, OSError, LookupError, ValueError):
            pass  # a line on the screen stops no run
        return ""

    def write_start(self) -> None:
        """Write runtime.json for the jobs and run.json for the report."""
        write_text(self.folder.runtime, self.config.runtime.model_dump_json())
        started = {
            "run": self.config.runtime.run,
            "preset": self.config.runtime.preset,
            "layout": LAYOUT,
            "started_unix": time.time(),
            "machine": asdict(this_machine()),
            "config": self.config.model_dump(mode="json"),
        }
        write_json(self.folder.facts, started)


def precedence(files: Sequence[Path], given: Mapping[str, Any]) -> str:
    """Return one line with the sources of a configuration, the weakest first.

    >>> precedence([Path("config/small.yaml"), Path("my.yaml")], {"runtime": {"run": "x"}})
    'configuration: config/tiny.yaml < config/small.yaml < my.yaml < --config runtime (the last to give a key wins)'
    """
    named = [os.path.relpath(path) for path in files]
    named = [f"config/{DEFAULTS.name}", *(name for name in named if name != f"config/{DEFAULTS.name}")]
    if given:
        named.append(f"--config {' '.join(given)}")
    return f"configuration: {' < '.join(named)} (the last to give a key wins)"


def replaced_file(arguments: Sequence[str], files: Sequence[Path]) -> str | None:
    """Return a note when `--configfile` replaces a profile's own file, which Snakemake does silently."""
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
