"""`examine`: compares the requirements of a preset with this machine, one finding per requirement."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.model import Config
from config.resolve import DEFAULTS, resolve
from records.errors import ConfigError
from trainer.engines.vllm_version import installed_vllm, vllm_fault
from trainer.metrics.sinks import PACKAGES
from trainer.needs import Needs, gib
from trainer.start import pretrained_fault, source_faults

EVALUATED_ONLY = ("released",)
"""Presets that train nothing."""
LEAST_DISK = 2 * 2**30
"""Bytes free that even the smallest run needs: tables, figures and logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    what: str
    ok: bool
    detail: str

    def line(self) -> str:
        """The finding as one line of text."""
        return f"{'ok     ' if self.ok else 'missing'} {self.what}: {self.detail}"


def examine(preset: str) -> list[Finding]:
    """Compare a preset's needs with this machine. Raises ConfigError for an unknown preset."""
    path = DEFAULTS.with_name(f"{preset}.yaml")
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in DEFAULTS.parent.glob("*.yaml")))
        raise ConfigError(f"--preset {preset}: unknown; one of {known}")
    config = resolve([path])
    return [
        _device(config),
        _model(config),
        _data(config),
        *_size(config),
        _sandbox(config),
        *_engine(config),
        *_packages(config),
    ]


def _device(config: Config) -> Finding:
    if config.runtime.device == "cpu":
        return Finding(what="device", ok=True, detail=f"cpu, {os.cpu_count()} cores")
    import torch

    count = torch.cuda.device_count()
    return Finding(
        what="device", ok=count > 0, detail=f"{count} CUDA devices; the preset requires at least one"
    )


def _model(config: Config) -> Finding:
    if config.model.path is None:
        return Finding(what="model", ok=True, detail="initialised at random, nothing to fetch")
    fault = pretrained_fault(config.model)
    return Finding(what="model", ok=fault is None, detail=fault or f"{config.model.path}")


def _data(config: Config) -> Finding:
    """Reports what `trainer.start` refuses."""
    if faults := list(source_faults(config.data, config.runtime)):
        return Finding(what="data", ok=False, detail="; ".join(faults))
    data = config.runtime.paths.data
    if data is None:
        return Finding(what="data", ok=True, detail="generated; published benchmarks come from the hub")
    return Finding(what="data", ok=Path(data).is_dir(), detail=f"runtime.paths.data = {data}")


def _size(config: Config) -> Iterator[Finding]:
    """Disk and memory against the preset's own needs, which are upper bounds."""
    needs = Needs.of(config, trains=config.runtime.preset not in EVALUATED_ONLY)
    folder = Path(config.runtime.paths.results)
    free = shutil.disk_usage(folder if folder.exists() else Path()).free
    needed = LEAST_DISK if needs.disk_bytes is None else max(LEAST_DISK, needs.disk_bytes)
    yield Finding(
        what="disk", ok=free > needed, detail=f"{gib(free)} free for {folder}, {gib(needed)} needed"
    )
    memory = needs.memory_bytes
    if memory is not None:
        held, place = _memory(config)
        total = memory + (needs.kv_bytes or 0.0)
        yield Finding(
            what="memory",
            ok=held >= total,
            detail=f"{gib(held)} of {place}; weights, optimizer and one cache take {gib(total)}, activations apart",
        )
    for line in needs.lines():
        yield Finding(what="cost", ok=True, detail=line)


def _memory(config: Config) -> tuple[float, str]:
    """Bytes where the trainer computes, and what they belong to."""
    if config.runtime.device == "cpu":
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")), "this machine"
    import torch

    sizes = [torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count())]
    return float(max(sizes, default=0)), "the largest GPU"


def _sandbox(config: Config) -> Finding:
    from records.tool_call import ToolCall
    from sandbox import Sandbox, SandboxError

    try:
        with Sandbox(workers=1, preload=tuple(config.sandbox.preload)) as sandbox:
            result = sandbox.run(ToolCall(id="doctor", code="1 + 1"))
            return Finding(
                what="sandbox", ok=result.value == "2", detail=f"isolation level {sandbox.started['level']}"
            )
    except SandboxError as error:
        return Finding(what="sandbox", ok=False, detail=str(error))


def _engine(config: Config) -> list[Finding]:
    """Version of vLLM, if the preset uses vLLM or a GPU."""
    if config.rollout.engine.kind == "local" and config.runtime.device == "cpu":
        return []
    found = installed_vllm()
    fault = vllm_fault(found)
    return [Finding(what="vllm", ok=fault is None, detail=fault or f"{' '.join(found or ())}, as pinned")]


def _packages(config: Config) -> list[Finding]:
    required = ["torch", "transformers", "snakemake", "math_verify"]
    required += [PACKAGES[sink] for sink in config.runtime.sinks]
    return [
        Finding(what=name, ok=importlib.util.find_spec(name) is not None, detail="Python package")
        for name in required
    ]
