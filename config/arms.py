"""`Arm` and `ArmRun`: experiment arms, named changes to a preset, read from arms.yaml and checked as all settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from config.commands import ArmView
from config.fields import CheckpointName, Positive, Section
from config.mapping import read_yaml, resolve_mapping
from config.model import Config, Control, EvalPlan
from records.errors import ConfigError, require_known
from records.stages import FILTERED, RL_STAGES

ARMS = Path(__file__).with_name("experiments") / "arms.yaml"
MAIN = "main"
"""The origin of the run itself."""
SEED_STRIDE = 1000
"""Seed i of an arm samples with rollout.seed + i * SEED_STRIDE; seed 0 is the run's own."""


class Origin(Section):
    """The source of an arm's SFT checkpoint."""

    text: str
    changes: dict[str, Any] = Field(default_factory=dict)

    @property
    def teaches_anew(self) -> bool:
        """Return whether documents and tokenizer differ from the run's own."""
        return any(key.startswith("sft.noise.") for key in self.changes)


class Arm(Section):
    """One experiment arm."""

    text: str
    changes: dict[str, Any] = Field(default_factory=dict)
    """Key -> value in place of the preset's."""
    times: dict[str, float] = Field(default_factory=dict)
    """Key -> factor on the preset's value."""
    stages: list[CheckpointName] = Field(default_factory=lambda: [RL_STAGES[0]])


class Block(Section):
    """A part of the ablations: every arm from every origin with seeds 0, 1, ..."""

    arms: list[str]
    origins: list[str]
    seeds: Positive


class SamplingGrid(Section):
    """Checkpoints sampled at several temperatures, often enough for pass@k."""

    checkpoints: list[CheckpointName]
    origins: list[str]
    """Origins whose SFT checkpoint is sampled too."""
    temperatures: list[Annotated[float, Field(ge=0.0)]]
    k: Annotated[int, Field(ge=2)]
    """Samples per question."""
    limit: Positive
    """Questions per test ring."""

    @property
    def members(self) -> list[str]:
        """Return the names of the sampled members: checkpoints of the run, then origins."""
        return [*self.checkpoints, *self.origins]

    def stage_of(self, member: str) -> str:
        """Return the stage that produced a member."""
        return "sft" if member in self.origins else member

    def plans_of(self, member: str) -> dict[str, EvalPlan]:
        """Return the evaluation plans of one member, one per temperature."""
        return {
            f"t{temperature:g}": EvalPlan.model_validate(
                {
                    "checkpoint": self.stage_of(member),
                    "benchmarks": ["procedural"],
                    "k": self.k,
                    "temperature": temperature,
                    "limit": self.limit,
                    "control": Control.NONE,
                }
            )
            for temperature in self.temperatures
        }


class ArmsFile(Section):
    origins: dict[str, Origin]
    arms: dict[str, Arm]
    ablations: list[Block]
    sampling_grid: SamplingGrid

    @model_validator(mode="after")
    def _blocks_name_what_exists(self) -> Self:
        for block in self.ablations:
            for name in block.arms:
                require_known(name, self.arms, "ablations: arm")
            for name in block.origins:
                require_known(name, [MAIN, *self.origins], "ablations: origin")
        for name in self.sampling_grid.origins:
            require_known(name, self.origins, "sampling_grid: origin")
        return self


@dataclass(frozen=True, slots=True, order=True)
class ArmRun:
    """One arm from one SFT checkpoint with one seed."""

    arm: str
    origin: str
    seed: int

    @property
    def name(self) -> str:
        """Return the name of its files.

        >>> ArmRun("grpo_g", "main", 2).name
        'grpo_g-main-2'
        """
        return f"{self.arm}-{self.origin}-{self.seed}"


@cache
def load_arms() -> ArmsFile:
    """Return the arms of arms.yaml; a ConfigError names the faulty entry."""
    try:
        return ArmsFile.model_validate(read_yaml(ARMS))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{ARMS.name}: {where}: {first['msg'].removeprefix('Value error, ')}") from None


def configured(config: Config) -> list[ArmRun]:
    """Return the arms of the default run, from its own SFT checkpoint, each with as many seeds as `arms` gives it."""
    for name in config.arms:
        require_known(name, load_arms().arms, "arms: arm")
    return runs_of(config.arms)


def runs_of(arms: Mapping[str, int]) -> list[ArmRun]:
    """Return the runs of a table of arms and their numbers of seeds.

    >>> [run.name for run in runs_of({"roc_paper": 2})]
    ['roc_paper-main-0', 'roc_paper-main-1']
    """
    return sorted(ArmRun(name, MAIN, seed) for name, num in arms.items() for seed in range(num))


def ablation_runs() -> list[ArmRun]:
    """Return every run of `snakemake ablations`, each once."""
    return sorted(
        {
            ArmRun(arm, origin, seed)
            for block in load_arms().ablations
            for arm in block.arms
            for origin in block.origins
            for seed in range(block.seeds)
        }
    )


def config_of_origin(config: Config, origin: str) -> Config:
    """Return the configuration that produces an origin's SFT checkpoint."""
    if origin == MAIN:
        return config
    require_known(origin, load_arms().origins, "origin")
    return _changed(config, load_arms().origins[origin].changes, {}, f"origin {origin}")


def config_of_arm(config: Config, run: ArmRun) -> Config:
    """Return the configuration of an arm: the preset, the origin's and the arm's changes, and its seed.

    Raises ConfigError for an unknown arm or origin, or for changes that the preset does not allow.
    """
    require_known(run.arm, load_arms().arms, "arm")
    arm = load_arms().arms[run.arm]
    base = config_of_origin(config, run.origin)
    seed = base.rollout.seed + run.seed * SEED_STRIDE
    return _changed(base, arm.changes | {"rollout.seed": seed}, arm.times, f"arm {run.arm}")


def view_of_arm(config: Config, run: ArmRun) -> ArmView:
    """Return the sections of an arm: its stages, and the plan that tests it.

    Raises:
        ConfigError: as `config_of_arm`; or no plan tests arms.
    """
    changed = config_of_arm(config, run)
    stages = load_arms().arms[run.arm].stages
    plan = changed.eval.plans.get(RL_STAGES[0])
    if plan is None:
        raise ConfigError(f"eval.plans.{RL_STAGES[0]} tests every arm and is missing; give it")
    return ArmView(
        sandbox=changed.sandbox,
        rollout=changed.rollout,
        objective=changed.objective,
        stages={stage: changed.rl.stage(stage) for stage in stages},
        filter=changed.rl.filter if FILTERED.name in stages else None,
        eval=changed.eval.model_copy(update={"plans": {RL_STAGES[0]: plan}}),
    )


def _changed(config: Config, changes: Mapping[str, Any], times: Mapping[str, float], source: str) -> Config:
    dumped = config.model_dump(mode="json")
    for key, factor in times.items():
        value = _parent(dumped, key, source)[key.rpartition(".")[2]] * factor
        changes = dict(changes) | {key: round(value) if value == round(value) else value}
    for key, value in changes.items():
        _parent(dumped, key, source)[key.rpartition(".")[2]] = value
    return resolve_mapping(dumped, source=f"{ARMS.name}, {source}", may_idle=True)


def _parent(dumped: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    """Return the mapping that holds a dotted key; ConfigError if there is no such key."""
    holder: Any = dumped
    *parents, name = key.split(".")
    for part in parents:
        holder = holder.get(part) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or name not in holder:
        raise ConfigError(f"{ARMS.name}, {source}: {key} is not a key of the configuration")
    return holder
