"""`Sampler`: engine, scheduler, sandbox and tokenizer of one checkpoint, from tasks to trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from config.commands import RolloutView
from config.model import Control, RolloutSection, RuntimeSection, SandboxSection, StageSection
from records.errors import ConfigError
from records.files import read_json
from records.trajectory import Rollout
from trainer.engines.local import LocalEngine
from trainer.engines.protocol import Engine, LiveWeights
from trainer.engines.vllm import VllmEngine
from trainer.rollout.chat import Codec, rollout_chat
from trainer.rollout.episode import Episodes, RolloutClock
from trainer.rollout.flaky_tool import FlakyTool
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.tokenizer import FolderCodec
from trainer.rollout.tool import limits_of, open_tool
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.scheduling.policies import scheduling_policy
from trainer.update.grpo import GrpoTrainer


@dataclass(slots=True, kw_only=True)
class Sampler:
    """Samples batches of tasks under one checkpoint's weights, which may change between batches."""

    engine: Engine
    episodes: Episodes
    codec: Codec
    settings: RolloutSettings
    rollout: RolloutSection
    engine_s: float = 0.0
    """Loop of the last batch."""
    wait_s: float = 0.0

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Rollout, RolloutClock]]:
        loop = RolloutLoop(
            engines=[self.engine],
            policy=scheduling_policy(self.rollout.scheduler).make([self.rollout.kv_tokens]),
            episodes=self.episodes,
            codec=self.codec,
            settings=replace(self.settings, policy_version=policy_version),
        )
        yield from loop.run(tasks)
        self.engine_s, self.wait_s = loop.engine_s, loop.wait_s

    def take_weights(self, trainer: GrpoTrainer, version: int) -> None:
        """Give the engine the weights of a trainer in this process."""
        self.engine.take_weights(LiveWeights(trainer.export_weights(), trainer.model.config), version)


@contextmanager
def open_sampler(
    checkpoint: Path,
    rollout: RolloutSection,
    sandbox: SandboxSection,
    settings: RolloutSettings,
    runtime: RuntimeSection,
    control: Control = Control.NONE,
    fail_frac: float = 0.0,
) -> Iterator[Sampler]:
    """A sampler with its own sandbox; the caller loads weights. Raises ConfigError if the model is too short.

    `fail_frac` is the share of calls that fail by chance, see `trainer.rollout.flaky_tool`.
    """
    require_positions(checkpoint, settings.max_prompt + settings.max_response)
    if rollout.tool.state == "off":
        control = Control.TOOL_OFF
    with (
        closing(make_engine(rollout, settings, runtime)) as engine,
        open_tool(sandbox, runtime, control, rollout.tool.own) as tool,
    ):
        flaky = FlakyTool(tool, fail_frac) if fail_frac else tool
        yield Sampler(
            engine=engine,
            episodes=ToolEpisodes(tool=flaky, chat=rollout_chat(rollout)),
            codec=FolderCodec.load(checkpoint),
            settings=settings,
            rollout=rollout,
        )


def make_engine(rollout: RolloutSection, settings: RolloutSettings, runtime: RuntimeSection) -> Engine:
    """The configured engine, without weights. Raises ConfigError if vLLM is configured but not installed as pinned."""
    max_len = settings.max_prompt + settings.max_response
    if rollout.engine.kind == "local":
        return LocalEngine(
            engine=0, capacity_tokens=rollout.kv_tokens, max_len=max_len, device=runtime.device
        )
    on_cpu = runtime.device == "cpu"
    return VllmEngine(
        engine=0,
        capacity_tokens=rollout.kv_tokens,
        max_len=max_len,
        max_requests=rollout.engine.max_requests,
        dtype=rollout.engine.dtype or ("float32" if on_cpu else "bfloat16"),
        threads=runtime.threads.rl,
        eager=on_cpu,
    )


def require_positions(
    checkpoint: Path, needed: int, what: str = "the longest prompt and response take"
) -> None:
    """Raise ConfigError unless the model was made for contexts of `needed` tokens; longer ones give random text."""
    limit = most_positions(checkpoint)
    if limit is not None and needed > limit:
        raise ConfigError(
            f"{checkpoint}: its model holds contexts of {limit} tokens (max_position_embeddings), {what} {needed}; "
            "take a model of longer contexts, or shorten them"
        )


def most_positions(checkpoint: Path) -> int | None:
    """Longest context of a checkpoint's model in tokens, scaling included; None where its config states none."""
    config = read_json(checkpoint / "config.json")
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # Some configurations state the length before scaling, some after it; the larger reading refuses no good model.
    factor = scaling.get("factor", 1.0) if isinstance(scaling, dict) else 1.0
    limit = config.get("max_position_embeddings")
    return int(limit * max(1.0, float(factor))) if isinstance(limit, int) else None


def rl_settings(
    view: RolloutView, section: StageSection, *, run: str, stage: str, runtime: RuntimeSection
) -> RolloutSettings:
    """Settings of training rollouts."""
    return RolloutSettings(
        run=run,
        checkpoint=stage,
        benchmark=stage,
        max_prompt=view.rollout.max_prompt,
        max_response=section.max_response,
        max_turns=section.max_turns,
        temperature=view.rollout.temperature,
        top_p=1.0,  # truncated sampling makes behaviour log-probs disagree with the trainer's softmax (B14)
        seed=view.rollout.seed,
        policy_version=0,
        limits=limits_of(view.sandbox),
        rejoin_iterations=view.rollout.rejoin_iterations if runtime.deterministic else None,
    )
