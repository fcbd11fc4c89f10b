"""`Sampler`: engine, scheduler, sandbox and tokenizer of one checkpoint, from tasks to trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from config.commands import RolloutView
from config.model import Control, RolloutSection, RuntimeSection, SandboxSection, StageSection
from records.errors import ConfigError
from records.files import read_json
from records.trajectory import Rollout
from trainer.engines.open_engines import open_engines
from trainer.engines.protocol import Engine, LiveWeights
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

    engines: list[Engine]
    """Those that are not lost for good."""
    episodes: Episodes
    codec: Codec
    settings: RolloutSettings
    rollout: RolloutSection
    engine_s: float = 0.0
    """Loop of the last batch."""
    wait_s: float = 0.0

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Rollout, RolloutClock]]:
        loop = RolloutLoop(
            engines=self.engines,
            policy=scheduling_policy(self.rollout.scheduler).make(
                [self.rollout.kv_tokens] * len(self.engines)
            ),
            episodes=self.episodes,
            codec=self.codec,
            settings=replace(self.settings, policy_version=policy_version),
        )
        yield from loop.run(tasks)
        self.engine_s, self.wait_s = loop.engine_s, loop.wait_s

    def take_weights(self, trainer: GrpoTrainer, version: int) -> None:
        """Give the engines the weights of a trainer in this process."""
        self._give(LiveWeights(trainer.export_weights(), trainer.model.config), version)

    def load(self, checkpoint: Path) -> None:
        """Give the engines the weights of a folder as version 0; a server keeps those that it was started with."""
        if self.rollout.engine.kind != "endpoint":
            self._give(checkpoint, 0)

    def _give(self, source: Path | LiveWeights, version: int) -> None:
        """An engine that does not take them is lost for good; raises its error when it was the last."""
        for engine in list(self.engines):
            try:
                engine.take_weights(source, version)
            except Exception as error:
                if len(self.engines) == 1:
                    raise
                self.engines.remove(engine)
                print(f"an engine is lost for good: {type(error).__name__}: {error}"[:300], flush=True)


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
    max_len = settings.max_prompt + settings.max_response
    if rollout.engine.kind != "endpoint":  # whose folder may hold the tokenizer alone
        require_positions(checkpoint, max_len)
    codec = FolderCodec.load(checkpoint)
    if rollout.tool.state == "off":
        control = Control.TOOL_OFF
    with (
        open_engines(rollout, runtime, max_len=max_len, codec=codec) as engines,
        open_tool(sandbox, runtime, control, rollout.tool.own) as tool,
    ):
        flaky = FlakyTool(tool, fail_frac) if fail_frac else tool
        yield Sampler(
            engines=engines,
            episodes=ToolEpisodes(tool=flaky, chat=rollout_chat(rollout)),
            codec=codec,
            settings=settings,
            rollout=rollout,
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
