"""`bench_decode`: decoding speed of the local engine and of transformers' `generate`, on one model and its prompts.

The unit is tokens per CPU-second of this process, sampling included. Rounds are interleaved and the best one counts,
because other processes only ever slow a round. `generate` returns ids only, the engine also log-probs.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Annotated, Any, cast

import torch
import transformers
import typer
from transformers import Qwen3Config, Qwen3ForCausalLM

from trainer.engines.local import LocalEngine
from trainer.engines.protocol import LiveWeights
from trainer.engines.requests import GenerateRequest


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


def bench_decode(
    batches: Sequence[int] = (128, 512), *, prompt_len: int = 110, num_new: int = 100, num_rounds: int = 3
) -> dict[str, Any]:
    """Measure both on each batch size, on one thread; prompts differ, so nothing is shared.

    A round's decode time is that of `num_new` tokens minus that of 1 token, which is mostly prefill.

    Returns a JSON record: per batch size the decoded tokens per CPU-second of each round, the best of both,
    their ratio, and the ratio with prefill included.
    """
    torch.set_num_threads(1)
    model = tiny_policy()
    return {
        "prompt_len": prompt_len,
        "num_new": num_new,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": 1,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "results": [_bench_batch(model, batch, prompt_len, num_new, num_rounds) for batch in batches],
    }


def _bench_batch(
    model: Qwen3ForCausalLM, batch: int, prompt_len: int, num_new: int, num_rounds: int
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(batch)
    prompts = torch.randint(3, 1024, (batch, prompt_len), generator=generator)
    ids = prompts.tolist()
    num_decoded = batch * (num_new - 1)
    engine_rates: list[float] = []
    peer_rates: list[float] = []
    whole_ratios: list[float] = []
    for _ in range(num_rounds):
        engine_first, engine_whole = _engine_cpu_s(model, ids, 1), _engine_cpu_s(model, ids, num_new)
        peer_first, peer_whole = (
            _generate_cpu_s(model, prompts, 1),
            _generate_cpu_s(model, prompts, num_new),
        )
        engine_rates.append(num_decoded / (engine_whole - engine_first))
        peer_rates.append(num_decoded / (peer_whole - peer_first))
        whole_ratios.append(peer_whole / engine_whole)
    return {
        "batch": batch,
        "engine_tokens_per_cpu_s": engine_rates,
        "generate_tokens_per_cpu_s": peer_rates,
        "best_ratio": max(engine_rates) / max(peer_rates),
        "median_ratio": median(engine / peer for engine, peer in zip(engine_rates, peer_rates, strict=True)),
        "median_ratio_with_prefill": median(whole_ratios),
    }


def _engine_cpu_s(model: Qwen3ForCausalLM, prompts: list[list[int]], num_new: int) -> float:
    """CPU seconds of one batch with prefill and sampling, without the loading of weights."""
    max_len = len(prompts[0]) + num_new
    engine = LocalEngine(engine=0, capacity_tokens=len(prompts) * max_len, max_len=max_len)
    engine.take_weights(LiveWeights(model.state_dict(), model.config), 0)
    begin = time.process_time()
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
        num_done += len(engine.advance())
    return time.process_time() - begin


def _generate_cpu_s(model: Qwen3ForCausalLM, prompts: torch.Tensor, num_new: int) -> float:
    begin = time.process_time()
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
    return time.process_time() - begin


def main(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
    batch: Annotated[list[int] | None, typer.Option(help="Batch size; may be repeated.", min=1)] = None,
    num_new: Annotated[int, typer.Option(help="Tokens decoded for each prompt.", min=2)] = 100,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 3,
) -> None:
    """Measure tokens per CPU-second of the local engine and of transformers' `generate`."""
    record = bench_decode(batch or (128, 512), num_new=num_new, num_rounds=rounds)
    typer.echo(json.dumps(record, indent=None if as_json else 1))


if __name__ == "__main__":
    typer.run(main)
