"""`Command` and `View`: each command of the pipeline with the sections of the configuration that it reads.

A rule passes the view of its command as one canonical JSON string, so Snakemake reruns exactly the jobs that a changed
key affects. The command receives the same frozen view: reading another setting is an AttributeError and a type error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import ValidationError

from config.fields import Section
from config.model import (
    AnalysisSection,
    Config,
    DataSection,
    EndpointEngineSection,
    EvalSection,
    FilterSection,
    ModelSection,
    RolloutSection,
    SandboxSection,
    SftNoiseSection,
    SftSection,
    StageSection,
)
from config.objective import ObjectiveSection
from records.digest import canonical
from records.errors import ConfigError
from records.stages import BY_NAME, FILTERED, RL_STAGES


@dataclass(frozen=True, slots=True)
class At:
    """Dotted key of a section below the top level; `{stage}` is the stage of the command."""

    key: str


class View(Section):
    """The sections that one command reads."""

    @property
    def record(self) -> dict[str, Any]:
        """Return the sections as JSON values, for fingerprints and manifests."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """Return canonical JSON; `Command.read` is the inverse."""
        return canonical(self.record)


class PrepareView(View):
    data: DataSection


class CorpusView(View):
    data: DataSection
    sandbox: SandboxSection
    rollout: RolloutSection
    noise: Annotated[SftNoiseSection, At("sft.noise")]


class BaseView(View):
    model: ModelSection
    rollout: RolloutSection


class SftView(View):
    rollout: RolloutSection
    sft: SftSection


class RolloutView(View):
    """Sections of every command that samples rollouts."""

    sandbox: SandboxSection
    rollout: RolloutSection

    def at_endpoint(self, base: str | None) -> Self:
        """Return the view with the server at `base` as its engine; the view itself if `base` is None."""
        if base is None:
            return self
        engine = EndpointEngineSection(kind="endpoint", base=base)
        return self.model_copy(update={"rollout": self.rollout.model_copy(update={"engine": engine})})


class RlView(RolloutView):
    objective: ObjectiveSection
    stage: Annotated[StageSection, At("rl.{stage}")]


class FilterView(RlView):
    """Sections of the filter, whose `stage` is the stage of the filtering policy, and the filtered stage."""

    filter: Annotated[FilterSection | None, At("rl.filter")]


class SamplingView(RolloutView):
    """Sections for sampling a checkpoint outside training."""

    eval: EvalSection


class EvaluateView(SamplingView):
    analysis: AnalysisSection


class AnalysisView(View):
    analysis: AnalysisSection


class OriginView(View):
    model: ModelSection
    data: DataSection
    sandbox: SandboxSection
    rollout: RolloutSection
    sft: SftSection


class ArmView(SamplingView):
    """Sections of an arm, made by `config.arms.view_of_arm`; `eval` holds only the plan that tests the arm."""

    objective: ObjectiveSection
    stages: dict[str, StageSection]
    """The RL stages that the arm trains, in order."""
    filter: FilterSection | None
    """None for an arm without a filter."""


V_co = TypeVar("V_co", bound=View, covariant=True)


@dataclass(frozen=True, slots=True)
class Command(Generic[V_co]):
    """One command of the pipeline."""

    name: str
    view: type[V_co]
    stage: str = ""
    """The stage whose section the view holds."""

    @property
    def keys(self) -> dict[str, str]:
        """Return field of the view -> dotted key of its section.

        >>> RL["rl2"].keys
        {'sandbox': 'sandbox', 'rollout': 'rollout', 'objective': 'objective', 'stage': 'rl.rl2'}
        """
        return {
            name: next(
                (item.key.format(stage=self.stage) for item in field.metadata if isinstance(item, At)), name
            )
            for name, field in self.view.model_fields.items()
        }

    def of(self, source: Config | View) -> V_co:
        """Return the view of a configuration, or of another view that holds its sections."""
        return self.view(**{name: _section_at(source, key) for name, key in self.keys.items()})

    def read(self, text: str, *, where: str = "--sections") -> V_co:
        """Read the output of `View.to_json`.

        Raises:
            ConfigError: the text is not JSON, a section is missing or unknown, or a value is wrong.
        """
        try:
            return self.view.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            at = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"{where} of {self.name}: {at + ': ' if at else ''}{first['msg']}") from None


def _section_at(source: Any, key: str) -> Any:
    for part in key.split("."):
        source = getattr(source, part)
    return source


PREPARE = Command("prepare", PrepareView)
CORPUS = Command("corpus", CorpusView)
BASE = Command("base", BaseView)
SFT = Command("sft", SftView)
RL: dict[str, Command[RlView]] = {
    name: Command(name, FilterView if BY_NAME[name].is_filtered else RlView, stage=name) for name in RL_STAGES
}
FILTER = Command("filter-hard", FilterView, stage=FILTERED.parent or "")
SCORE = Command("score", AnalysisView)
CHAT = Command("chat", SamplingView)
INSPECT = Command("inspect", BaseView)
EVALUATE = Command("evaluate", EvaluateView)
ORIGIN = Command("origin", OriginView)
ARM = Command("arm", ArmView)
ARM_OF_MAIN = Command("arm-of-main", View)
ANALYSIS = Command("analysis", AnalysisView)
COMMANDS: tuple[Command[Any], ...] = (
    PREPARE, CORPUS, BASE, SFT, *RL.values(), FILTER, SCORE, CHAT, INSPECT, EVALUATE, ORIGIN, ARM, ARM_OF_MAIN,
    ANALYSIS,
)  # fmt: skip
"""Every command that reads the configuration."""
