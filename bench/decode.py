"""`bench_decode`: decoding speed of the local engine, of vLLM and of transformers' `generate`, on one model.

The unit is tokens per CPU-second of this process and its children, sampling included. Rounds are interleaved and the
least seconds count, because other processes only ever slow a round. `generate` returns ids only, the engines also
log-probs. vLLM takes part where it is installed as pinned; the engines decode on one thread, each in its own way.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import psutil
import torch
import transformers
import typer
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from records.errors import ConfigError
from trainer.engines.local import LocalEngine
from trainer.engines.protocol import Engine, LiveWeights
from trainer.engines.requests import GenerateRequest
from trainer.engines.vllm import VllmEngine
from trainer.engines.vllm_version import installed_vllm, vllm_fault
from trainer.rollout.wake import Wake
from trainer.weights import read_model

Contestant = Callable[[list[list[int]], int], float]
"""Prompts and tokens to decode for each -> CPU seconds, loading of weights excluded."""


def tiny_policy() -> Qwen3ForCausalLM:
    """A random model of the tiny preset's shape: 0.72 M parameters."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=512,
    )
    return Qwen3ForCausalLM(config).eval()


@dataclass(frozen=True, slots=True)
class Workload:
    """Every prompt differs, within a round and between rounds, so no cache is shared."""

    prompt_len: int = 110
    num_new: int = 100
    num_rounds: int = 3

    def prompts(self, batch: int, number: int) -> list[list[int]]:
        """Random ids of one measurement."""
        generator = torch.Generator().manual_seed(1000 * batch + number)
        return torch.randint(3, 1024, (batch, self.prompt_len), generator=generator).tolist()

    @property
    def max_len(self) -> int:
        return self.prompt_len + self.num_new


def bench_decode(model: PreTrainedModel, batches: Sequence[int], work: Workload) -> dict[str, Any]:
    """Measure every contestant on each batch size.

    A round's decode time is that of `num_new` tokens minus that of 1 token, which is mostly prefill.

    Returns a JSON record: per batch size and contestant the CPU seconds of each round, the decoded tokens per
    CPU-second, and their ratio to those of `generate`.
    """
    torch.set_num_threads(1)
    with contestants(model, max(batches), work) as named:
        return {
            "prompt_len": work.prompt_len,
            "num_new": work.num_new,
            "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
            "dtype": "float32",
            "threads": 1,
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "vllm": (installed_vllm() or ("", ""))[1] if "vllm" in named else None,
            },
            "results": [_bench_batch(named, batch, work) for batch in batches],
        }


def _bench_batch(named: dict[str, Contestant], batch: int, work: Workload) -> dict[str, Any]:
    """Rates from the least CPU seconds of either length: a difference within one round would pick its noise."""
    first: dict[str, list[float]] = {name: [] for name in named}
    whole: dict[str, list[float]] = {name: [] for name in named}
    for cpu_s in named.values():
        cpu_s(work.prompts(batch, 0), 2)  # what only the first batch pays
    for number in range(1, work.num_rounds + 1):
        for name, cpu_s in named.items():
            first[name].append(cpu_s(work.prompts(batch, 2 * number), 1))
            whole[name].append(cpu_s(work.prompts(batch, 2 * number + 1), work.num_new))
    rates = {name: rate(batch * (work.num_new - 1), first[name], whole[name]) for name in named}
    base = rates["generate"]
    return {
        "batch": batch,
        "cpu_s_of_one_token": {name: [round(each, 3) for each in rounds] for name, rounds in first.items()},
        "cpu_s": {name: [round(each, 3) for each in rounds] for name, rounds in whole.items()},
        "tokens_per_cpu_s": rates,
        "ratio_to_generate": {
            name: round(one / base, 2) if one and base else None for name, one in rates.items()
        },
    }


def rate(num_decoded: int, first: Sequence[float], whole: Sequence[float]) -> float | None:
    """Tokens per CPU-second between the first token and the last; None where the clock is too coarse for the batch.

    >>> rate(100, [0.5, 0.3], [1.4, 1.3]), rate(100, [0.5], [0.4])
    (100.0, None)
    """
    seconds = min(whole) - min(first)
    return round(num_decoded / seconds, 1) if seconds > 0.02 else None


@contextmanager
def contestants(model: PreTrainedModel, largest: int, work: Workload) -> Iterator[dict[str, Contestant]]:
    """Yield what is measured, by name; vLLM starts once."""
    model.config.architectures = [
        type(model).__name__
    ]  # a model that was never saved has none, and vLLM reads it
    weights = LiveWeights(dict(model.named_parameters()), model.config)
    capacity = largest * (work.max_len + 32)

    def local(prompts: list[list[int]], num_new: int) -> float:
        with closing(LocalEngine(engine=0, capacity_tokens=capacity, max_len=work.max_len)) as engine:
            engine.take_weights(weights, 0)
            return _engine_cpu_s(engine, prompts, num_new)

    named: dict[str, Contestant] = {
        "local": local,
        "generate": lambda prompts, num_new: _generate_cpu_s(model, torch.tensor(prompts), num_new),
    }
    if vllm_fault(installed_vllm()) is not None:
        yield named
        return
    vllm = VllmEngine(engine=0, capacity_tokens=capacity, max_len=work.max_len, max_requests=largest)
    with closing(vllm):
        vllm.take_weights(weights, 0)
        yield named | {"vllm": lambda prompts, num_new: _engine_cpu_s(vllm, prompts, num_new)}


def _cpu_s() -> float:
    """CPU seconds of this process and its children so far."""
    children = psutil.Process().children(recursive=True)
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in children)


def _engine_cpu_s(engine: Engine, prompts: list[list[int]], num_new: int) -> float:
    """CPU seconds of one batch, prefill and sampling included."""
    wake = Wake()
    engine.call_when_done(wake.call)
    begin = _cpu_s()
    for i, ids in enumerate(prompts):
        engine.submit(
            GenerateRequest(
                ids=ids,
                max_new=num_new,
                seed=i,
                stop_ids=(),
                temperature=1.0,
                session=str(i),
                policy_version=0,
            )
        )
    num_done = 0
    while num_done < len(prompts):
        done = engine.advance()
        num_done += len(done)
        if not done and not engine.computes:
            wake.wait(None)
    return _cpu_s() - begin


def _generate_cpu_s(model: PreTrainedModel, prompts: torch.Tensor, num_new: int) -> float:
    begin = _cpu_s()
    with torch.inference_mode():
        generate = cast(Callable[..., torch.Tensor], model.generate)  # pyright: ignore[reportAttributeAccessIssue]
        generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            max_new_tokens=num_new,
            min_new_tokens=num_new,
            pad_token_id=0,
            eos_token_id=None,
        )
    return _cpu_s() - begin


def main(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
    batch: Annotated[list[int] | None, typer.Option(help="Batch size; may be repeated.", min=1)] = None,
    num_new: Annotated[int, typer.Option(help="Tokens decoded for each prompt.", min=2)] = 100,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 3,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Checkpoint folder; default: a random model of the tiny shape.")
    ] = None,
) -> None:
    """Tokens per CPU-second of the local engine, of vLLM if installed, and of transformers' `generate`."""
    try:
        model = tiny_policy() if checkpoint is None else read_model(checkpoint, dtype=torch.float32).eval()
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--checkpoint") from None
    record = bench_decode(model, batch or (16, 64, 256), Workload(num_new=num_new, num_rounds=rounds))
    typer.echo(json.dumps(record, indent=None if as_json else 1))


if __name__ == "__main__":
    typer.run(main)
