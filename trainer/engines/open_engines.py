"""`open_engines`: the engines that the configuration names, without weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from config.model import (
    EngineSection,
    ProcessEngineSection,
    RolloutSection,
    RuntimeSection,
    VllmEngineSection,
)
from trainer.engines.endpoint import EndpointEngine
from trainer.engines.local import LocalEngine
from trainer.engines.process import ProcessEngine
from trainer.engines.protocol import Engine
from trainer.engines.vllm import VllmEngine
from trainer.engines.weights_store import WeightsStore
from trainer.rollout.chat import Codec


@contextmanager
def open_engines(
    rollout: RolloutSection, runtime: RuntimeSection, *, max_len: int, codec: Codec
) -> Iterator[list[Engine]]:
    """Start the engines; ends them with the context.

    Args:
        rollout: its kind of engine, and tokens of each cache.
        runtime: device and threads of each engine.
        max_len: most tokens of one context, sampled ones included.
        codec: of the model; only an endpoint requires it.

    Raises:
        ConfigError: vLLM is not installed as pinned, or a server does not answer.
    """
    section = rollout.engine
    with ExitStack() as stack:
        match section.kind:
            case "local":
                made: list[Engine] = [
                    LocalEngine(
                        engine=0, capacity_tokens=rollout.kv_tokens, max_len=max_len, device=runtime.device
                    )
                ]
            case "process":
                store = stack.enter_context(closing(WeightsStore()))
                made = [
                    ProcessEngine(
                        engine=number,
                        capacity_tokens=rollout.kv_tokens,
                        max_len=max_len,
                        store=store,
                        device=runtime.device,
                        threads=runtime.threads,
                    )
                    for number in range(section.count)
                ]
            case "vllm":
                on_cpu = runtime.device == "cpu"
                made = [
                    VllmEngine(
                        engine=number,
                        capacity_tokens=rollout.kv_tokens,
                        max_len=max_len,
                        max_requests=section.max_requests,
                        dtype=section.dtype or ("float32" if on_cpu else "bfloat16"),
                        threads=runtime.threads,
                        eager=on_cpu,
                        device=None if section.count == 1 or on_cpu else gpu_of(number, _gpus()),
                    )
                    for number in range(section.count)
                ]
            case "endpoint":
                made = [stack.enter_context(EndpointEngine.open(section.base, codec=codec))]
        for engine in made:
            stack.enter_context(closing(engine))
        yield made


def num_engines(section: EngineSection) -> int:
    """Engines that `open_engines` starts."""
    return section.count if isinstance(section, ProcessEngineSection | VllmEngineSection) else 1


def gpu_of(number: int, gpus: Sequence[str]) -> str:
    """The GPU of one of several engines, dealt in turn.

    >>> [gpu_of(number, ["4", "6"]) for number in range(3)]
    ['4', '6', '4']
    """
    return gpus[number % len(gpus)]


def _gpus() -> list[str]:
    """Names of the GPUs that this process may use."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return visible.split(",")
    return [str(number) for number in range(torch.cuda.device_count())] or ["0"]
