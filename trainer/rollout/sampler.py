"""Engine, scheduler, sandbox and tokenizer put together for one checkpoint: tasks in, trajectories out."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from config.model import Control, RolloutSection, RuntimeSection, SandboxSection, StageSection
from records.errors import ConfigError
from records.files import read_json
from records.tool_call import Limits, Status, ToolCall, ToolError, ToolResult
from records.trajectory import Trajectory
from sandbox.client.client import Sandbox
from sandbox.client.equal_calls import EqualCalls
from sandbox.client.near_limit import NearLimitCalls, surroundings
from trainer.engines.local import LocalEngine
from trainer.rollout.chat import ChatFormat
from trainer.rollout.loop import RolloutClock, RolloutLoop, RolloutSettings, Task, Tool
from trainer.rollout.tokenizer import FolderCodec
from trainer.rollout.user_tool import load_own_tool
from trainer.scheduling.forecast import ForecastPolicy
from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policy import Policy
from trainer.update.grpo import GrpoTrainer


class ToolOff:
    """Stands in for the sandbox in the control without tool: every call gets the same refusal."""

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        future: Future[ToolResult] = Future()
        error = ToolError(type="Unavailable", message="the tool is not available", traceback="")
        future.set_result(ToolResult(id=call.id, status=Status.ERROR, error=error))
        return future

    def close_session(self, name: str) -> None:
        """Nothing to close."""


@dataclass(slots=True, kw_only=True)
class Sampler:
    """Samples batches of tasks under one checkpoint's weights, which may change between batches."""

    engine: LocalEngine
    tool: Tool
    chat: ChatFormat
    codec: FolderCodec
    settings: RolloutSettings
    rollout: RolloutSection
    engine_s: float = 0.0
    """Of the last batch."""
    wait_s: float = 0.0

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Trajectory, RolloutClock]]:
        loop = RolloutLoop(
            engines=[self.engine],
            policy=scheduling_policy(self.rollout),
            tool=self.tool,
            chat=self.chat,
            codec=self.codec,
            settings=replace(self.settings, policy_version=policy_version),
        )
        yield from loop.run(tasks)
        self.engine_s, self.wait_s = loop.engine_s, loop.wait_s

    def take_weights(self, trainer: GrpoTrainer, version: int) -> None:
        """Weights of a trainer in this process; every cached context goes with the old ones (public fault B43)."""
        self.engine.load_state_dict(trainer.export_weights(), trainer.model.config, version)
        self.engine.reset_prefix_cache()


def scheduling_policy(rollout: RolloutSection) -> Policy:
    """The configured admission to the one local engine; a fresh one for each batch."""
    if rollout.reserve == "forecast":
        return ForecastPolicy(capacities=[rollout.kv_tokens])
    return KvBudgetPolicy(capacities=[rollout.kv_tokens], reserve=rollout.reserve)


@contextmanager
def open_sampler(
    checkpoint: Path,
    rollout: RolloutSection,
    sandbox: SandboxSection,
    settings: RolloutSettings,
    runtime: RuntimeSection,
    control: Control = Control.NONE,
) -> Iterator[Sampler]:
    """A sampler with a sandbox of its own; the caller loads weights. ConfigError when the model is too short."""
    require_positions(checkpoint, settings.max_prompt + settings.max_response)
    engine = LocalEngine(
        engine=0,
        capacity_tokens=rollout.kv_tokens,
        max_len=settings.max_prompt + settings.max_response,
        temperature=settings.temperature,
        top_p=settings.top_p,
        device=runtime.device,
    )
    if rollout.tool.state == "off":
        control = Control.TOOL_OFF
    with open_tool(sandbox, runtime, control, rollout.tool.own) as tool:
        yield Sampler(
            engine=engine,
            tool=tool,
            chat=rollout_chat(rollout),
            codec=FolderCodec.load(checkpoint),
            settings=settings,
            rollout=rollout,
        )


@contextmanager
def open_tool(
    sandbox: SandboxSection,
    runtime: RuntimeSection,
    control: Control = Control.NONE,
    own: str | None = None,
) -> Iterator[Any]:
    """The sandbox, or its stand-in for the control without tool. A tool of the user's is loaded in the sandbox."""
    if control is Control.TOOL_OFF:
        yield ToolOff()
        return
    preload, path = tuple(sandbox.preload), ()
    if own is not None:
        preload, path = (*preload, own), (os.getcwd(),)
    with Sandbox(workers=runtime.sandbox_workers, preload=preload, python_path=path) as client:
        tool = _repeatable(client, runtime, preload, own) if runtime.deterministic else client
        # Of a tool of the user's nobody knows whether it is pure; and a pure program may still order types by address.
        yield EqualCalls(tool) if own is None and client.has_fixed_addresses else tool


def _repeatable(
    client: Sandbox, runtime: RuntimeSection, preload: tuple[str, ...], own: str | None
) -> NearLimitCalls:
    """Calls near their time limit, where the clock decides, end alike in the whole run, also after a resume."""
    around = surroundings(preload)
    if own is not None:
        module = inspect.getsourcefile(importlib.import_module(own))
        around += hashlib.sha256(Path(module).read_bytes()).hexdigest() if module else ""
    return NearLimitCalls(client, runtime.folder.near_limit_calls, around)


def require_positions(
    checkpoint: Path, needed: int, what: str = "the longest prompt and response take"
) -> None:
    """Raise ConfigError unless the model was made for contexts of `needed` tokens; beyond them it writes at random."""
    config = read_json(checkpoint / "config.json")
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # Some configurations state the length before the scaling, some after it: the larger reading refuses no good model.
    factor = scaling.get("factor", 1.0) if isinstance(scaling, dict) else 1.0
    limit = config.get("max_position_embeddings")
    if isinstance(limit, int) and needed > limit * max(1.0, float(factor)):
        raise ConfigError(
            f"{checkpoint}: its model holds contexts of {limit} tokens (max_position_embeddings), {what} {needed}; "
            "take a model of longer contexts, or shorten them"
        )


def chat_format(rollout: RolloutSection) -> ChatFormat:
    """The configured conversation."""
    return ChatFormat(
        system=rollout.system,
        tool_name=rollout.tool.name,
        session=rollout.tool.state == "session",
        response_chars=rollout.tool.response_chars,
    )


def rollout_chat(rollout: RolloutSection) -> ChatFormat:
    """The conversation of rollouts: with the user's tool, where there is one. The SFT teacher knows Python only."""
    chat = chat_format(rollout)
    if rollout.tool.own is None:
        return chat
    own = load_own_tool(rollout.tool.own)
    return replace(chat, own=own, tool_name=own.name, session=False)


def limits_of(sandbox: SandboxSection) -> Limits:
    """The configured limits of one call."""
    return Limits(
        wall_s=sandbox.wall_s,
        cpu_s=sandbox.cpu_s,
        memory_bytes=sandbox.memory_mib * 2**20,
        output_bytes=sandbox.output_bytes,
    )


def rl_settings(
    view: Any, section: StageSection, *, run: str, stage: str, runtime: RuntimeSection
) -> RolloutSettings:
    """Settings of training rollouts; `view` holds rollout and sandbox."""
    return RolloutSettings(
        run=run,
        checkpoint=stage,
        benchmark=stage,
        max_prompt=view.rollout.max_prompt,
        max_response=section.max_response,
        max_turns=section.max_turns,
        temperature=view.rollout.temperature,
        top_p=view.rollout.top_p,
        seed=view.rollout.seed,
        policy_version=0,
        limits=limits_of(view.sandbox),
        rejoin_iterations=view.rollout.rejoin_iterations if runtime.deterministic else None,
    )
